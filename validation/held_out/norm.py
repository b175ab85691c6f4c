"""Layer, RMS, batch, group and instance norm, forward and backward."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from held_out.points import Params, backward, dtype_of, size, switches, tensor

WIDTHS = (96, 192, 320, 384, 640, 896, 1152, 1280, 1536, 2560, 3584, 5120, 7168)
CHANNELS = (16, 24, 40, 48, 80, 96, 160, 192, 320, 640, 960, 1280)
IMAGES = ("batch", "batch", "batch", "group", "group", "batch_eval", "instance", "batch1d")


def draw(rng: random.Random) -> Iterator[Params]:
    """About 140 points."""
    for at in range(60):
        width = rng.choice(WIDTHS)
        rows = size(rng, 8, 60000)
        while rows * width > 1.5e8:
            rows //= 3
        yield {
            "op": ("layer", "rms")[at % 2],
            "dir": ("fwd", "bwd")[at // 2 % 2],
            "rows": rows,
            "width": width,
            "dtype": rng.choice(("bf16", "bf16", "fp32", "fp16")),
        }
    for at in range(80):
        op, channels = IMAGES[at % len(IMAGES)], rng.choice(CHANNELS)
        n, side = size(rng, 1, 160), size(rng, 4, 160)
        while n * channels * side**2 > 1.5e8:
            n, side = max(1, n // 2), max(4, side * 2 // 3)
        yield {
            "op": op,
            "dir": "fwd" if op == "batch_eval" else rng.choice(("fwd", "bwd")),
            "n": n,
            "channels": channels,
            "side": side,
            "dtype": rng.choice(("fp32", "bf16", "bf16", "fp16")),
            "last": op in ("batch", "group", "batch_eval") and rng.random() < 0.4,
            "fp32_weights": rng.random() < 0.5,
        }


def build(params: Params) -> Callable[[], object]:
    """One norm; see `held_out.points.Point.build`."""
    import torch

    p = params
    switches()
    if p["op"] in ("layer", "rms"):
        cls = torch.nn.LayerNorm if p["op"] == "layer" else torch.nn.RMSNorm
        module = cls(p["width"], device="cuda", dtype=dtype_of(p["dtype"]))
        return _of(p, module, tensor(p["dtype"], p["rows"], p["width"]))
    channels, side = p["channels"], p["side"]
    x = tensor(p["dtype"], p["n"], channels, side, side)
    # Group and instance norm want weights of their input's dtype; batch norm takes float32, too.
    words = "fp32" if p["fp32_weights"] and p["op"].startswith("batch") else p["dtype"]
    kind = {"device": "cuda", "dtype": dtype_of(words)}
    if p["op"] == "batch1d":
        x = tensor(p["dtype"], p["n"] * side, channels)
        return _of(p, torch.nn.BatchNorm1d(channels, **kind), x)
    if p["last"]:
        x = x.to(memory_format=torch.channels_last)
    if p["op"] == "group":
        return _of(p, torch.nn.GroupNorm(8, channels, **kind), x)
    if p["op"] == "instance":
        return _of(p, torch.nn.InstanceNorm2d(channels, affine=True, **kind), x)
    module = torch.nn.BatchNorm2d(channels, **kind)
    return _of(p, module.eval() if p["op"] == "batch_eval" else module, x)


def _of(p: Params, module: object, x: object) -> Callable[[], object]:
    import torch

    if p["dir"] == "fwd":

        def call() -> object:
            with torch.set_grad_enabled(p["op"] != "batch_eval"):
                return module(x)  # type: ignore[operator]

        return call
    x.requires_grad_()  # type: ignore[attr-defined]
    return backward(module(x), (x, *module.parameters()))  # type: ignore[operator, attr-defined]
