"""LSTM, GRU and plain RNN layers of cuDNN, training forward and backward."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from held_out.points import Params, backward, dtype_of, size, switches, tensor


def draw(rng: random.Random) -> Iterator[Params]:
    """About 36 points."""
    for at in range(36):
        yield {
            "op": ("LSTM", "GRU", "LSTM", "RNN")[at % 4],
            "dir": ("fwd", "bwd")[at // 4 % 2],
            "batch": size(rng, 1, 200),
            "seq": size(rng, 4, 120),
            "inputs": size(rng, 32, 1200, 8),
            "hidden": size(rng, 48, 1600, rng.choice((1, 8, 32))),
            "layers": rng.choice((1, 1, 2, 3)),
            "both": rng.random() < 0.3,
            "dtype": rng.choice(("fp32", "tf32", "fp16", "bf16")),
        }


def build(params: Params) -> Callable[[], object]:
    """One call of the layers; see `held_out.points.Point.build`."""
    import torch

    p = params
    switches(tf32=p["dtype"] == "tf32")
    layers = getattr(torch.nn, p["op"])(
        p["inputs"],
        p["hidden"],
        p["layers"],
        bidirectional=p["both"],
        device="cuda",
        dtype=dtype_of(p["dtype"]),
    )
    x = tensor(p["dtype"], p["seq"], p["batch"], p["inputs"])
    if p["dir"] == "fwd":
        return lambda: layers(x)
    x.requires_grad_()
    return backward(layers(x)[0], (x, *layers.parameters()))
