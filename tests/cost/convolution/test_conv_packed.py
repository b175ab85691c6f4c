"""Tensor-core kernels that take groups together: tiles counted by hand, times as recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matmul_work import dense

from gpuscope.cost.convolution.packed import packed_s, tiles, width
from gpuscope.cost.convolution.shape import ConvShape, Pass
from gpuscope.cost.registry import Constants, Work
from gpuscope.hardware import calibration_for, device
from gpuscope.program.types import Op

H200 = device("h200")


def of(groups: int, each: int, images: int, side: int, taps: int = 9) -> ConvShape:
    """Groups of `each` channels on both sides, sizes kept."""
    c, positions = groups * each, side * side
    return ConvShape(images, c, c, positions, positions, taps, groups, 1, True)


def seconds(shape: ConvShape, which: Pass, dtype: str) -> float:
    op = Op(0, "aten::convolution", inputs=(dense(1),), outputs=(dense(1),))
    return packed_s(Work(op, H200, Constants(calibration_for(H200))), shape, which, dtype)


def test_groups_share_tiles_of_64_channels() -> None:
    """18 groups of 16 channels fill 5 tiles of 64; 16 images of 28 x 28 are 196 rows of tiles."""
    shape = of(18, 16, 16, 28)
    assert tiles(shape, "forward", "float16") == (196 * 5, 9)
    assert tiles(shape, "weight_gradient", "float16") == (5 * 9, 196)
    assert tiles(shape, "forward", "tf32") == (196 * 9 / 2, 9 / 2)  # 32 channels wide and deep


@pytest.mark.parametrize(("each", "whole"), [(1, 4), (3, 4), (6, 8), (22, 32), (64, 64)])
def test_a_group_is_spread_to_a_power_of_two(each: int, whole: int) -> None:
    assert width(of(8, each, 1, 8)) == whole


def test_a_strided_gradient_reads_each_tap_for_a_quarter_of_the_positions() -> None:
    shape = replace(of(8, 16, 4, 32), positions_out=256, strides=4)
    assert tiles(shape, "data_gradient", "float16")[1] == pytest.approx(9 / 4)


@pytest.mark.parametrize(
    ("shape", "which", "dtype", "recorded_us"),
    [
        (of(18, 16, 16, 28), "forward", "float16", 15.6),
        (of(9, 16, 16, 56), "forward", "float16", 30.7),
        (of(32, 4, 33, 110), "forward", "float16", 157.0),
        (of(28, 8, 33, 85), "forward", "bfloat16", 231.7),
        (of(56, 16, 2, 8), "forward", "float16", 4.7),
        (of(16, 24, 62, 47), "data_gradient", "bfloat16", 173.2),
        (of(8, 24, 37, 101), "data_gradient", "float16", 236.2),
        (of(28, 8, 33, 85), "weight_gradient", "bfloat16", 188.4),
        (of(28, 1, 14, 24), "weight_gradient", "bfloat16", 35.0),
        (of(44, 6, 43, 27), "forward", "tf32", 56.4),
        (of(34, 6, 36, 63, 25), "data_gradient", "tf32", 494.1),
    ],
)
def test_times_are_near_the_recorded(
    shape: ConvShape, which: Pass, dtype: str, recorded_us: float
) -> None:
    assert seconds(shape, which, dtype) * 1e6 == pytest.approx(recorded_us, rel=0.2)


@pytest.mark.parametrize("dtype", ["bfloat16", "tf32"])
@pytest.mark.parametrize("which", ["forward", "data_gradient", "weight_gradient"])
def test_more_images_take_longer(which: Pass, dtype: str) -> None:
    times = [seconds(of(32, 8, n, 28), which, dtype) for n in (1, 4, 16, 64, 256)]
    assert times == sorted(times)
    assert times[-1] > 3 * times[-2]


def test_zeros_cost_what_channels_do() -> None:
    """Tiles of 64 channels: 4 of 16 take what 16 of 4 do."""
    assert seconds(of(4, 16, 64, 28), "forward", "float16") == pytest.approx(
        seconds(of(16, 4, 64, 28), "forward", "float16")
    )
