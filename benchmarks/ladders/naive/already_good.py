"""GPT-2 small training that is tuned already: nothing here should be changed."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def build(batch=8, seq=1024):
    torch.set_float32_matmul_precision("high")
    config = GPT2Config(
        vocab_size=50304, attn_implementation="sdpa", resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = GPT2LMHeadModel(config).cuda().train()
    compiled = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    tokens = torch.randint(0, 50257, (batch, seq), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
