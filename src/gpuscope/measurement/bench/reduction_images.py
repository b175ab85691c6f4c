"""Norms and pools on images, for the bench of reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch.nn import functional

from gpuscope.measurement.bench.harness import BenchCase
from gpuscope.measurement.bench.inputs import DTYPES, randn
from gpuscope.measurement.bench.types import Value

IMAGES = (
    (16, 64, 112),
    (16, 64, 56),
    (16, 256, 56),
    (16, 512, 28),
    (16, 1024, 14),
    (16, 2048, 7),
    (64, 256, 56),
    (64, 2048, 7),
    (1, 64, 112),
    (4, 320, 64),
    (4, 640, 32),
    (4, 1280, 16),
)
"""Batch, channels, height = width."""

OPERATORS = {
    "batch_norm": 1,
    "group_norm": 2,
    "max_pool": 3,
    "avg_pool_global": 3,
    "upsample": 3,
    "batch_norm_eval": 4,
}
"""Each on every so-manieth image."""


def image_cases() -> Iterator[BenchCase]:
    """All operators in both layouts, forward and backward."""
    for op, step in OPERATORS.items():
        for n, c, hw in IMAGES[::step]:
            for layout in ("nchw", "nhwc"):
                for dtype in ("fp32", "bf16"):
                    for direction in ("fwd", "bwd")[: 1 if op == "batch_norm_eval" else 2]:
                        params: dict[str, Value] = {
                            "op": op,
                            "dtype": dtype,
                            "layout": layout,
                            "n": n,
                            "c": c,
                            "hw": hw,
                            "dir": direction,
                        }
                        make = _maker(op, (n, c, hw), dtype, layout, direction)
                        yield BenchCase("image_reduction", params, make, repetitions=5)


def _maker(
    op: str, shape: tuple[int, int, int], dtype: str, layout: str, direction: str
) -> Callable[[str], Callable[[], object]]:
    def make(device: str) -> Callable[[], object]:
        n, c, hw = shape
        x = randn(n, c, hw, hw, dtype=DTYPES[dtype], device=device)
        if layout == "nhwc":
            x = x.contiguous(memory_format=torch.channels_last)
        x.requires_grad_(direction == "bwd")
        # batch norm keeps fp32 weights even with bf16 inputs (as under autocast)
        wide = torch.float32 if op == "batch_norm" else DTYPES[dtype]
        w, b = (
            randn(c, dtype=wide, device=device).requires_grad_(direction == "bwd") for _ in range(2)
        )
        mean, var = torch.zeros(c, device=device), torch.ones(c, device=device)

        def forward() -> torch.Tensor:
            return _call(op, x, w, b, mean, var)

        if direction == "fwd":
            return forward
        out = forward()
        grad = torch.randn_like(out)
        inputs = (x, w, b)
        return lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True, allow_unused=True)

    return make


def _call(
    op: str,
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor,
    mean: torch.Tensor,
    var: torch.Tensor,
) -> torch.Tensor:
    if op == "batch_norm":
        return functional.batch_norm(x, mean, var, w, b, training=True)
    if op == "batch_norm_eval":
        return functional.batch_norm(x, mean.to(x.dtype), var.to(x.dtype), w, b)
    if op == "group_norm":
        return functional.group_norm(x, 32, w, b)
    if op == "max_pool":
        return functional.max_pool2d(x, 3, 2, 1)
    if op == "avg_pool_global":
        return functional.adaptive_avg_pool2d(x, 1)
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")
