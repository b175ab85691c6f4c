"""Convolutions: forward, gradients; kernels, strides, groups, layouts, dtypes; 1-D to 3-D."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from held_out.points import Params, backward, dtype_of, size, switches, tensor

CHANNELS = (3, 16, 24, 40, 48, 80, 96, 112, 160, 192, 224, 320, 352, 448, 640, 832, 960, 1280)
"""Few of them powers of two; the calibration's own are 64 to 2048."""
MOST_FLOPS = {"fp32": 1e11, "tf32": 4e11}
FORMS = (
    ("1x1", 32),
    ("3x3", 38),
    ("5x5", 8),
    ("7x7", 10),
    ("depthwise", 24),
    ("grouped", 12),
    ("transposed", 10),
    ("3d", 10),
    ("1d", 8),
    ("dilated", 6),
)


def draw(rng: random.Random) -> Iterator[Params]:
    """About 160 points."""
    for form, count in FORMS:
        for _ in range(count):
            while True:
                params = _one(rng, form)
                if _flops(params) < MOST_FLOPS.get(params["dtype"], 1e12) and _large(params) < 2e8:
                    break
            yield params


def _one(rng: random.Random, form: str) -> Params:
    kernel = {"1x1": 1, "3x3": 3, "5x5": 5, "7x7": 7, "transposed": 4, "grouped": 3}.get(form, 3)
    if form in ("depthwise", "1d"):
        kernel = rng.choice((3, 3, 5, 7))
    cin, cout = rng.choice(CHANNELS), rng.choice(CHANNELS[1:])
    groups = 1
    if form == "depthwise":
        cin = cout = groups = rng.choice(CHANNELS[2:])
    elif form == "grouped":
        groups = rng.choice((2, 4, 8, 32))
        cin, cout = (groups * rng.choice((4, 8, 16, 24, 40)) for _ in range(2))
    dims = {"3d": 3, "1d": 1}.get(form, 2)
    side = {1: size(rng, 100, 8000), 2: size(rng, 6, 230), 3: size(rng, 6, 48)}[dims]
    stride = rng.choice((1, 1, 2)) if form != "transposed" else 2
    return {
        "form": form,
        "dir": rng.choice(("fwd", "fwd", "bwd", "dgrad", "wgrad")),
        "dtype": rng.choice(("bf16", "bf16", "fp16", "tf32", "fp32")),
        "n": size(rng, 1, 160),
        "cin": cin,
        "cout": cout,
        "side": side,
        "kernel": kernel,
        "stride": stride,
        "dilation": 2 if form == "dilated" else 1,
        "groups": groups,
        "dims": dims,
        "last": dims > 1 and rng.random() < 0.5,
        "bias": rng.random() < 0.3,
        "benchmark": rng.random() < 0.3,
    }


def _flops(p: Params) -> float:
    per_place = 2.0 * p["n"] * p["cin"] * p["cout"] / p["groups"] * p["kernel"] ** p["dims"]
    out = p["side"] * 2 if p["form"] == "transposed" else p["side"] / p["stride"]
    return per_place * out ** p["dims"] * (2 if p["dir"] == "bwd" else 1)


def _large(p: Params) -> float:
    growth = 4 if p["form"] == "transposed" else 1
    return float(p["n"] * max(p["cin"], p["cout"]) * p["side"] ** p["dims"] * growth)


def build(params: Params) -> Callable[[], object]:
    """One convolution; see `held_out.points.Point.build`."""
    import torch

    p = params
    switches(tf32=p["dtype"] == "tf32", benchmark=p["benchmark"])
    what = "ConvTranspose" if p["form"] == "transposed" else "Conv"
    module = getattr(torch.nn, f"{what}{p['dims']}d")(
        p["cin"],
        p["cout"],
        p["kernel"],
        stride=p["stride"],
        dilation=p["dilation"],
        groups=p["groups"],
        bias=p["bias"],
        padding=p["dilation"] * (p["kernel"] // 2),
        device="cuda",
        dtype=dtype_of(p["dtype"]),
    )
    x = tensor(p["dtype"], p["n"], p["cin"], *[p["side"]] * p["dims"])
    if p["last"]:
        order = torch.channels_last if p["dims"] == 2 else torch.channels_last_3d
        module, x = module.to(memory_format=order), x.to(memory_format=order)
    weights = list(module.parameters())
    for w in weights:
        w.requires_grad_(p["dir"] in ("bwd", "wgrad"))
    if p["dir"] == "fwd":
        return lambda: module(x)
    x.requires_grad_(p["dir"] in ("bwd", "dgrad"))
    wanted = ([x] if x.requires_grad else []) + [w for w in weights if w.requires_grad]
    return backward(module(x), wanted)
