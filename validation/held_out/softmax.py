"""Softmax and its logarithm, forward and backward."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from held_out.points import Params, backward, size, switches, tensor


def draw(rng: random.Random) -> Iterator[Params]:
    """About 65 points."""
    for at in range(64):
        rows, columns = size(rng, 4, 100000), size(rng, 8, 60000, rng.choice((1, 1, 8)))
        while rows * columns > 2e8:
            rows, columns = max(1, rows // 3), max(8, columns // 2)
        yield {
            "op": ("softmax", "log_softmax")[at % 2],
            "dir": ("fwd", "bwd")[at // 2 % 2],
            "dtype": rng.choice(("fp32", "bf16", "bf16", "fp16")),
            "rows": rows,
            "columns": columns,
            "dim": rng.choice((-1,) * 7 + (0,)),
        }


def build(params: Params) -> Callable[[], object]:
    """One softmax; see `held_out.points.Point.build`."""
    p = params
    switches()
    x = tensor(p["dtype"], p["rows"], p["columns"])
    if p["dir"] == "fwd":
        return lambda: getattr(x, p["op"])(p["dim"])
    x.requires_grad_()
    return backward(getattr(x, p["op"])(p["dim"]), (x,))
