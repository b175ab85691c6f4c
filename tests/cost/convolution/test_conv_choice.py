"""Which sort of kernel cuDNN takes, against recorded calls of an H200 (cuDNN 9.19)."""

from __future__ import annotations

import pytest
from matmul_work import channels_last, dense, run

from gpuscope.cost.types import Kernel

Pair = tuple[int, int]


def made(
    which: str,
    n: int,
    c: int,
    size: Pair,
    window: Pair,
    dtype: str = "bfloat16",
    dilation: int = 1,
    last: bool = True,
) -> tuple[Kernel, ...]:
    """Kernels of one pass of a convolution that keeps its sizes, a filter a channel."""
    make = channels_last if last else dense
    x, w = make(n, c, *size, dtype=dtype), make(c, 1, *window, dtype=dtype)
    args = {
        "stride": (1, 1),
        "padding": tuple(dilation * (k - 1) // 2 for k in window),
        "dilation": (dilation, dilation),
        "groups": c,
    }
    if which == "forward":
        return run("aten::convolution", (x, w), (x,), **args)
    mask = (which == "data", which == "weight", False)
    out = x if which == "data" else w
    return run("aten::convolution_backward", (x, x, w), (out,), output_mask=mask, **args)


def names(kernels: tuple[Kernel, ...]) -> set[str]:
    return {k.name for k in kernels}


def us(kernels: tuple[Kernel, ...]) -> float:
    return sum(k.duration_s for k in kernels) * 1e6


def test_small_squares_have_kernels_of_their_own() -> None:
    for which in ("forward", "data", "weight"):
        (kernel,) = made(which, 32, 96, (56, 56), (7, 7))
        assert kernel.name.startswith("conv_depthwise")


@pytest.mark.parametrize("window", [(1, 7), (21, 1), (9, 9), (31, 31)])
def test_other_windows_are_summed_directly(window: Pair) -> None:
    assert names(made("forward", 8, 64, (32, 32), window)) == {"conv_fprop_direct"}
    assert names(made("weight", 4, 64, (32, 32), window)) == {"conv_wgrad_direct"}


def test_dilated_squares_and_long_sums_are_packed_like_groups() -> None:
    for kernels in (
        made("forward", 8, 64, (32, 32), (9, 9), dilation=2),
        made("weight", 32, 96, (32, 32), (1, 7)),
    ):
        assert sum(k.name == "spread_groups" for k in kernels) == 3
        assert len(kernels) >= 4


def test_float32_walks_windows_of_few_columns_alone() -> None:
    (walked,) = made("data", 8, 64, (32, 32), (1, 5), "float32")
    (summed,) = made("data", 8, 64, (32, 32), (5, 1), "float32")
    assert (walked.name, summed.name) == ("conv_depthwise_dgrad", "conv_dgrad_direct")


@pytest.mark.parametrize(
    ("which", "c", "size", "window", "recorded_us"),
    [
        ("forward", 64, (128, 128), (1, 7), 391.3),
        ("forward", 64, (128, 128), (11, 1), 542.2),
        ("forward", 320, (32, 32), (21, 1), 252.6),
        ("data", 64, (128, 128), (21, 1), 435.6),
        ("data", 64, (128, 128), (1, 21), 156.6),
        ("data", 320, (32, 32), (11, 1), 79.0),
        ("weight", 320, (32, 32), (1, 7), 197.3),
    ],
)
def test_strips_take_what_was_recorded(
    which: str, c: int, size: Pair, window: Pair, recorded_us: float
) -> None:
    """Eight images, bfloat16: filters of 1 x 7 to 21 x 1 (µs)."""
    assert us(made(which, 8, c, size, window)) == pytest.approx(recorded_us, rel=0.25)


@pytest.mark.parametrize(
    ("which", "n", "c", "size", "window", "dtype", "recorded_us"),
    [
        ("forward", 47, 544, (45, 40), (21, 1), "bfloat16", 1543.4),
        ("forward", 29, 72, (77, 59), (1, 11), "float16", 134.7),
        ("forward", 62, 200, (64, 64), (13, 13), "float16", 4436.0),
        ("data", 47, 544, (45, 40), (21, 1), "bfloat16", 1798.6),
        ("data", 73, 888, (15, 15), (9, 9), "float32", 876.9),
        ("data", 10, 640, (140, 140), (7, 7), "float32", 5276.0),
    ],
)
def test_channels_first_any_window_is_atens_own(
    which: str, n: int, c: int, size: Pair, window: Pair, dtype: str, recorded_us: float
) -> None:
    (kernel,) = made(which, n, c, size, window, dtype, last=False)
    assert kernel.duration_s * 1e6 == pytest.approx(recorded_us, rel=0.2)
