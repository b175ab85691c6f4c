"""BERT-large masked-language-model training in bf16, as first written, with a padding mask."""

import torch
from transformers import BertConfig, BertForMaskedLM


def build(batch=32, seq=512):
    config = BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
    )
    model = BertForMaskedLM(config).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, config.vocab_size, (batch, seq))
    mask = torch.ones_like(tokens)
    labels = torch.where(torch.rand(batch, seq) < 0.15, tokens, -100)

    def step():
        ids, attention_mask, targets = tokens.cuda(), mask.cuda(), labels.cuda()
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            out = model(input_ids=ids, attention_mask=attention_mask, labels=targets)
        out.loss.backward()
        optimizer.step()
        return out.loss.item()

    return step
