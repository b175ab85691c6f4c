"""A recommendation model, tuned by hand: one copy a step, TF32, compiled."""

import sys
from pathlib import Path

import torch
from torch.nn import functional as F  # noqa: N812

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from naive.dlrm import ROWS, TABLES, Recommender


def build(batch=4096):
    torch.set_float32_matmul_precision("high")
    model = Recommender().cuda()
    compiled = torch.compile(model, mode="reduce-overhead", dynamic=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    dense = torch.randn(batch, 13).pin_memory()
    sparse = torch.randint(0, ROWS, (TABLES, batch)).pin_memory()
    clicks = torch.randint(0, 2, (batch,)).float().pin_memory()

    def step():
        numbers = dense.cuda(non_blocking=True)
        indices = sparse.cuda(non_blocking=True)
        targets = clicks.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = F.binary_cross_entropy_with_logits(
            compiled(numbers, list(indices.unbind(0))), targets
        )
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
