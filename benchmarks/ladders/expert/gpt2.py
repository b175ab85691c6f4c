"""GPT-2 small training, tuned by hand with PyTorch alone."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def build(batch=8, seq=1024):
    torch.set_float32_matmul_precision("high")
    config = GPT2Config(vocab_size=50304, attn_implementation="sdpa")
    model = GPT2LMHeadModel(config).cuda().train()
    compiled = torch.compile(model, mode="reduce-overhead", dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    tokens = torch.randint(0, 50257, (batch, seq)).pin_memory()

    def step():
        ids = tokens.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step
