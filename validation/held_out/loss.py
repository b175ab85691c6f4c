"""Losses, forward and backward."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from held_out.points import Params, backward, size, switches, tensor

OPS = ("cross_entropy", "cross_entropy", "mse", "bce", "nll", "cross_entropy", "smoothed")


def draw(rng: random.Random) -> Iterator[Params]:
    """About 55 points."""
    for at in range(56):
        rows, classes = size(rng, 4, 20000), size(rng, 10, 160000)
        while rows * classes > 2.5e8:
            rows = max(1, rows // 2)
        yield {
            "op": OPS[at % len(OPS)],
            "dir": ("fwd", "bwd")[at // 7 % 2],
            "rows": rows,
            "classes": classes,
            "dtype": rng.choice(("fp32", "fp32", "bf16")),
        }


def build(params: Params) -> Callable[[], object]:
    """One loss; see `held_out.points.Point.build`."""
    import torch
    from torch.nn import functional as F

    p = params
    switches()
    x = tensor(p["dtype"], p["rows"], p["classes"])
    goal = torch.randint(0, p["classes"], (p["rows"],), device="cuda")
    like = torch.rand_like(x)
    x.requires_grad_(p["dir"] == "bwd")
    calls: dict[str, Callable[[], object]] = {
        "cross_entropy": lambda: F.cross_entropy(x, goal),
        "smoothed": lambda: F.cross_entropy(x, goal, label_smoothing=0.1),
        "nll": lambda: F.nll_loss(x, goal),
        "mse": lambda: F.mse_loss(x, like),
        "bce": lambda: F.binary_cross_entropy_with_logits(x, like),
    }
    call = calls[p["op"]]
    return call if p["dir"] == "fwd" else backward(call(), (x,))
