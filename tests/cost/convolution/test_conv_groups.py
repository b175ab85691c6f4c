"""Convolutions whose groups are launched one by one."""

from __future__ import annotations

import pytest
from matmul_work import dense, run

from gpuscope.cost.types import Kernel


def _forward(
    samples: int, width: int, out: int, side: int, dtype: str = "float16", tf32: bool = True
) -> tuple[Kernel, ...]:
    """Filters of each sample apart: one image of as many groups."""
    x = dense(1, samples * width, side, side, dtype=dtype)
    w = dense(samples * out, width, 3, 3, dtype=dtype)
    y = dense(1, samples * out, side, side, dtype=dtype)
    return run(
        "aten::convolution",
        (x, w),
        (y,),
        settings={"tf32_cudnn": tf32},
        stride=(1, 1),
        padding=(1, 1),
        groups=samples,
    )


def _products(kernels: tuple[Kernel, ...]) -> int:
    return sum(1 for k in kernels if k.flops)


def _us(kernels: tuple[Kernel, ...]) -> float:
    return sum(k.duration_s for k in kernels) * 1e6


def test_wide_groups_of_half_precision_are_a_convolution_each() -> None:
    made = _forward(16, 256, 256, 16)
    assert _products(made) == 16
    assert _us(made) == pytest.approx(315, rel=0.35)  # recorded on an H200
    assert sum(k.flops for k in made) == pytest.approx(2 * 16 * 256 * 256 * 9 * 256)


def test_narrow_groups_share_a_kernel() -> None:
    assert _products(_forward(4, 32, 32, 128)) == 1


def test_tf32_has_a_kernel_for_groups_of_128() -> None:
    assert _products(_forward(8, 128, 128, 32, "float32")) == 1
    assert _products(_forward(4, 512, 512, 16, "float32")) == 4
    assert _products(_forward(16, 256, 128, 32, "float32")) == 1


def test_float32_has_none() -> None:
    assert _products(_forward(8, 64, 64, 64, "float32", tf32=False)) == 8
