"""GPT-2 small training on several GPUs as first written: DDP, float32, eager attention."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import GPT2Config, GPT2LMHeadModel


def build(batch=8, seq=1024):
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    if not dist.is_initialized():
        dist.init_process_group("nccl")
    torch.cuda.set_device(rank)
    config = GPT2Config(attn_implementation="eager")
    model = DistributedDataParallel(GPT2LMHeadModel(config).cuda().train(), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    tokens = torch.randint(0, config.vocab_size, (batch, seq))

    def step():
        ids = tokens.cuda()
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
