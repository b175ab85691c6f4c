"""Sorts and the largest k."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from held_out.points import Params, size, switches, tensor


def draw(rng: random.Random) -> Iterator[Params]:
    """About 50 points."""
    for at in range(50):
        rows = 1 if rng.random() < 0.3 else size(rng, 2, 5000)
        columns = size(rng, 16, 200000 if rows > 1 else 20000000)
        while rows * columns > 5e7:
            columns //= 2
        yield {
            "op": ("topk", "sort", "argsort")[at % 3],
            "rows": rows,
            "columns": max(16, columns),
            "dtype": rng.choice(("fp32", "fp32", "bf16", "int64")),
            "k": rng.choice((1, 2, 6, 8, 50)),
        }


def build(params: Params) -> Callable[[], object]:
    """One sort; see `held_out.points.Point.build`."""
    p = params
    switches()
    x = tensor(p["dtype"], p["rows"], p["columns"])
    if p["op"] == "topk":
        return lambda: x.topk(min(p["k"], p["columns"]))
    return lambda: getattr(x, p["op"])(-1)
