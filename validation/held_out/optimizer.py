"""Optimizer steps over lists of tensors, foreach and fused; clipping."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from held_out.points import Params, size, switches, tensor

OPS = (
    "adamw",
    "adamw_fused",
    "adamw",
    "sgd",
    "adamw_fused",
    "adagrad",
    "sgd_plain",
    "clip",
    "zero",
    "sgd_fused",
)


def draw(rng: random.Random) -> Iterator[Params]:
    """About 60 points."""
    for at in range(60):
        yield {
            "op": OPS[at % len(OPS)],
            "tensors": size(rng, 1, 320),
            "total": size(rng, 3e4, 3e8),
            "dtype": rng.choice(("fp32", "fp32", "bf16")),
            "seed": rng.randrange(10**6),
        }


def build(params: Params) -> Callable[[], object]:
    """One step; see `held_out.points.Point.build`."""
    import torch

    p = params
    switches()
    weights = []
    for n in _sizes(p):
        w = tensor(p["dtype"], n).requires_grad_()
        w.grad = tensor(p["dtype"], n)
        weights.append(w)
    op = p["op"]
    if op == "clip":
        return lambda: torch.nn.utils.clip_grad_norm_(weights, 1.0)
    if op == "zero":
        grads = [w.grad for w in weights]
        return lambda: torch._foreach_zero_(grads)
    made = {
        "adamw": lambda: torch.optim.AdamW(weights, foreach=True),
        "adamw_fused": lambda: torch.optim.AdamW(weights, fused=True),
        "sgd": lambda: torch.optim.SGD(weights, 1e-3, momentum=0.9, foreach=True),
        "sgd_plain": lambda: torch.optim.SGD(weights, 1e-3, foreach=True),
        "sgd_fused": lambda: torch.optim.SGD(weights, 1e-3, momentum=0.9, fused=True),
        "adagrad": lambda: torch.optim.Adagrad(weights, foreach=True),
    }[op]()
    return made.step


def _sizes(p: Params) -> list[int]:
    """A few large tensors and many small ones, as models have them."""
    rng = random.Random(p["seed"])
    parts = [rng.choice((0.01, 0.3, 1.0, 4.0)) * rng.random() for _ in range(p["tensors"])]
    whole = sum(parts)
    return [max(1, int(p["total"] * part / whole)) for part in parts]
