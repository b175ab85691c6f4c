"""PyTorch's own transformer encoder with a padding mask, gradient accumulation, GradScaler."""

import torch
from torch import nn


def build():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.Embedding(10000, 512), nn.TransformerEncoder(layer, 6)).cuda()
    head = nn.Linear(512, 10000).cuda()
    parameters = [*model.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    scaler = torch.amp.GradScaler("cuda")
    tokens = torch.randint(0, 10000, (2, 16, 256), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        for part in tokens:
            with torch.autocast("cuda", dtype=torch.float16):
                logits = head(model(part))
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), part.flatten()) / 2
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        scaler.step(optimizer)
        scaler.update()

    return step
