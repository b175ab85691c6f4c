"""Reductions over the last, the first, a middle or all dimensions; scans."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from held_out.points import Params, size, switches, tensor

OPS = ("sum", "sum", "mean", "amax", "argmax", "norm", "var", "sum", "cumsum", "max", "any")
PLACES = ("last", "last", "first", "middle", "all")


def draw(rng: random.Random) -> Iterator[Params]:
    """About 100 points."""
    for at in range(99):
        op = OPS[at % len(OPS)]
        a, b, c = size(rng, 1, 4000), size(rng, 2, 4000), size(rng, 2, 4000, rng.choice((1, 8)))
        while a * b * c > 3e8:
            a, b, c = max(1, a // 2), max(2, b // 2), max(2, c // 2)
        yield {
            "op": op,
            "dtype": rng.choice(("fp32", "fp32", "bf16", "bf16", "fp16")),
            "place": rng.choice(PLACES if op not in ("cumsum", "max") else PLACES[:4]),
            "a": a,
            "b": b,
            "c": c,
        }


def build(params: Params) -> Callable[[], object]:
    """One reduction; see `held_out.points.Point.build`."""
    import torch

    p = params
    switches()
    x = tensor(p["dtype"], p["a"], p["b"], p["c"])
    dim = {"last": -1, "first": 0, "middle": 1, "all": None}[p["place"]]
    if p["op"] == "norm":
        return lambda: torch.linalg.vector_norm(x, dim=dim)
    if p["op"] == "any":
        flags = x > 2
        return (lambda: flags.any()) if dim is None else (lambda: flags.any(dim))
    if dim is None and p["op"] == "amax":
        return lambda: x.amax()
    if dim is None:
        return lambda: getattr(x, p["op"])()
    return lambda: getattr(x, p["op"])(dim)
