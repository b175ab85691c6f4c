"""GPT-2 small training on several GPUs, tuned by hand."""

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
    torch.set_float32_matmul_precision("high")
    config = GPT2Config(vocab_size=50304, attn_implementation="sdpa")
    model = DistributedDataParallel(
        GPT2LMHeadModel(config).cuda().train(), device_ids=[rank], gradient_as_bucket_view=True,
        static_graph=True,
    )
    compiled = torch.compile(model, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    tokens = torch.randint(0, 50257, (batch, seq)).pin_memory()

    def step():
        ids = tokens.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
