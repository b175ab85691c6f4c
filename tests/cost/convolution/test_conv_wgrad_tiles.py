"""cuDNN's weight gradients in float32 that tiles of positions add up."""

from __future__ import annotations

import pytest
from matmul_work import dense, run

from gpuscope.cost.convolution.shape import ConvShape
from gpuscope.cost.convolution.wgrad_tiles import grid, tiles_s
from gpuscope.cost.registry import Constants, Work
from gpuscope.cost.types import Kernel
from gpuscope.hardware import calibration_for, device
from gpuscope.program.types import Op

H200 = device("h200")
WORK = Work(
    Op(0, "aten::convolution_backward", inputs=(dense(1),), outputs=(dense(1),)),
    H200,
    Constants(calibration_for(H200)),
)
FLOOR_S = WORK.constants.value("convolution.tiles.floor_s")


def shape(images: int, outputs: int, inputs: int, positions: int, taps: int = 1) -> ConvShape:
    return ConvShape(images, inputs, outputs, positions, positions, taps, 1, 1, False)


def weight_gradient(
    images: int, outputs: int, inputs: int, length: int, tap: int = 1, tf32: bool = True
) -> tuple[Kernel, ...]:
    """Kernels of the weight gradient of a convolution over signals."""
    x, y = (dense(images, c, length, dtype="float32") for c in (inputs, outputs))
    weight = dense(outputs, inputs, tap, dtype="float32")
    args = {"stride": (1,), "padding": (tap // 2,), "dilation": (1,), "groups": 1}
    return run(
        "aten::convolution_backward",
        (y, x, weight),
        (weight,),
        "h200",
        {"tf32_cudnn": tf32},
        output_mask=(False, True, False),
        transposed=False,
        **args,
    )


@pytest.mark.parametrize(
    ("sizes", "recorded_grid"),
    [
        ((16, 128, 80, 15872), (3, 4, 496)),
        ((8, 192, 96, 4096), (3, 6, 64)),
        ((64, 58, 24, 784), (1, 2, 128)),
        ((4, 352, 136, 1975, 7), (30, 11, 16)),
        ((128, 100, 512, 1, 16), (256, 4, 128)),
    ],
)
def test_its_grid_is_the_recorded(
    sizes: tuple[int, ...], recorded_grid: tuple[int, int, int]
) -> None:
    assert grid(shape(*sizes)) == recorded_grid


@pytest.mark.parametrize(
    ("sizes", "recorded_us"),
    [
        # Bound by the multiprocessors, rows read anew or found in a cache; by one block's walk; by
        # additions to the same weights.
        ((16, 128, 80, 15872), 605.5),
        ((8, 192, 96, 4096), 128.1),
        ((64, 128, 512, 196), 132.6),
        ((4, 352, 136, 1975, 7), 251.7),
        ((12, 8, 8, 2754), 21.0),
        ((2, 40, 15, 900), 21.6),
        ((64, 16, 3, 12544, 9), 164.4),
    ],
)
def test_it_is_near_recorded_launches(sizes: tuple[int, ...], recorded_us: float) -> None:
    assert (FLOOR_S + tiles_s(WORK, shape(*sizes))) * 1e6 == pytest.approx(recorded_us, rel=0.12)


def test_narrow_signals_are_left_to_it() -> None:
    zero, main = weight_gradient(16, 128, 80, 15872)
    assert (zero.name, main.name) == ("zero_gradient", "conv_wgrad_tiles")
    assert main.grid == 3 * 4 * 496
    assert main.flops == 2.0 * 16 * 15872 * 128 * 80


@pytest.mark.parametrize(
    ("inputs", "tap", "tf32"), [(64, 1, True), (128, 1, True), (80, 3, True), (80, 1, False)]
)
def test_others_are_matrix_products(inputs: int, tap: int, tf32: bool) -> None:
    names = [k.name for k in weight_gradient(16, 128, inputs, 15872, tap, tf32)]
    assert "conv_wgrad_tiles" not in names


def test_a_row_that_taps_share_is_read_once() -> None:
    one, nine = shape(16, 128, 288, 8192), shape(16, 128, 32, 8192, 9)
    assert grid(one) == grid(nine)
    assert tiles_s(WORK, nine) < tiles_s(WORK, one)


def test_many_blocks_take_as_long_as_their_positions() -> None:
    once, twice = (tiles_s(WORK, shape(images, 256, 96, 16384)) for images in (64, 128))
    assert twice == pytest.approx(2 * once, rel=0.01)
