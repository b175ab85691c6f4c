"""GPT-2 small training as first written: float32, eager attention, pageable tokens, loss read."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def build(batch=8, seq=1024):
    config = GPT2Config(attn_implementation="eager")
    model = GPT2LMHeadModel(config).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    tokens = torch.randint(0, config.vocab_size, (batch, seq))

    def step():
        ids = tokens.cuda()
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step
