"""T5-base training as first written: float32, loss read every step."""

import torch
from transformers import T5Config, T5ForConditionalGeneration


def build(batch=16, seq=512):
    config = T5Config(
        d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12, decoder_start_token_id=0,
    )
    model = T5ForConditionalGeneration(config).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    source = torch.randint(0, config.vocab_size, (batch, seq))
    target = torch.randint(0, config.vocab_size, (batch, seq // 4))

    def step():
        ids, labels = source.cuda(), target.cuda()
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
