"""Copies, casts, layout changes, concatenations, fills."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from held_out.points import Params, dtype_of, size, switches, tensor

OPS = (
    "clone",
    "cast",
    "cast",
    "transpose",
    "permute",
    "heads",
    "nhwc",
    "nchw",
    "cat0",
    "cat1",
    "slice",
    "fill",
    "zeros",
    "repeat",
    "flip",
    "roll",
    "copy_",
    "stack",
    "pad",
)
CASTS = (
    ("fp32", "bf16"),
    ("bf16", "fp32"),
    ("fp32", "fp16"),
    ("int64", "fp32"),
    ("bool", "bf16"),
    ("int64", "int32"),
    ("fp16", "fp32"),
)


def draw(rng: random.Random) -> Iterator[Params]:
    """About 95 points."""
    for at in range(95):
        op = OPS[at % len(OPS)]
        source, target = rng.choice(CASTS)
        if op != "cast":
            source = target = rng.choice(("fp32", "bf16", "bf16", "fp16", "int64"))
        a, b = size(rng, 1, 160), size(rng, 2, 160)
        c, d = size(rng, 2, 160), size(rng, 8, 300, rng.choice((1, 8)))
        while a * b * c * d > 2e8:
            a, b = max(1, a // 2), max(2, b // 2)
        yield {"op": op, "from": source, "to": target, "a": a, "b": b, "c": c, "d": d}


def build(params: Params) -> Callable[[], object]:
    """One copy; see `held_out.points.Point.build`."""
    import torch

    p = params
    switches()
    a, b, c, d = p["a"], p["b"], p["c"], p["d"]
    x = tensor(p["from"], a, b, c, d)
    flat = x.view(a * b, c * d)
    last = torch.channels_last
    other = tensor(p["from"], a, b, c, d)
    if p["op"] == "nchw":
        x = x.to(memory_format=last)
    calls: dict[str, Callable[[], object]] = {
        "clone": lambda: x.clone(),
        "cast": lambda: x.to(dtype_of(p["to"])),
        "transpose": lambda: flat.t().contiguous(),
        "permute": lambda: x.permute(0, 3, 1, 2).contiguous(),
        "heads": lambda: x.transpose(1, 2).contiguous(),
        "nhwc": lambda: x.contiguous(memory_format=last),
        "nchw": lambda: x.contiguous(memory_format=torch.contiguous_format),
        "cat0": lambda: torch.cat((x, other), 0),
        "cat1": lambda: torch.cat((x, other), -1),
        "slice": lambda: x[..., : d // 2].contiguous(),
        "fill": lambda: x.fill_(3),
        "zeros": lambda: torch.zeros_like(x),
        "repeat": lambda: x.repeat(1, 1, 2, 1),
        "flip": lambda: x.flip(-1),
        "roll": lambda: x.roll(1, 2),
        "copy_": lambda: x.copy_(other),
        "stack": lambda: torch.stack((x, other), 1),
        "pad": lambda: torch.nn.functional.pad(x, (1, 1, 1, 1)),
    }
    return calls[p["op"]]
