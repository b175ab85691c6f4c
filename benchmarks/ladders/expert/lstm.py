"""A word-level LSTM language model, tuned by hand with PyTorch alone."""

import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from naive.lstm import LanguageModel


def build(batch=64, seq=128):
    torch.set_float32_matmul_precision("high")
    model = LanguageModel().cuda()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    text = torch.randint(0, 33278, (batch, seq + 1)).pin_memory()

    def step():
        tokens = text.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(tokens[:, :-1])
            loss = criterion(logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        return loss.detach()

    return step
