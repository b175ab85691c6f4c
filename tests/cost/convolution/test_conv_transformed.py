"""Weights' gradients between Winograd's or Fourier's transforms."""

from __future__ import annotations

import pytest
from matmul_work import dense, run

from gpuscope.cost.convolution.shape import conv_shape
from gpuscope.cost.convolution.transformed import fourier, winograd, workspace_bytes
from gpuscope.cost.types import Kernel
from gpuscope.program.types import Op, TensorSpec

Sizes = tuple[int, int, int, int]
"""Images, input channels, output channels, side."""


def tensors(sizes: Sizes, taps: int = 3) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    n, c, k, side = sizes
    shapes = ((n, k, side, side), (n, c, side, side), (k, c, taps, taps))
    return tuple(dense(*s, dtype="float32") for s in shapes)  # type: ignore[return-value]


def gradient(sizes: Sizes, taps: int = 3, **args: object) -> Op:
    grad, x, weight = tensors(sizes, taps)
    given = {"stride": (1, 1), "padding": (taps // 2,) * 2, "dilation": (1, 1), "groups": 1}
    known = {**given, "output_mask": (False, True, False), "transposed": False, **args}
    return Op(0, "aten::convolution_backward", "default", (grad, x, weight), (weight,), known)


def kernels(sizes: Sizes, tf32: bool, taps: int = 3) -> tuple[Kernel, ...]:
    op = gradient(sizes, taps)
    return run(op.name, op.inputs, op.outputs, "h200", {"tf32_cudnn": tf32}, **op.args)


def borrowed(op: Op, tf32: bool) -> int:
    grad, x, weight = op.inputs
    shape = conv_shape(op, x, weight, grad)
    found = fourier(op, shape, x, tf32) or winograd(op, shape, x, grad)
    return 0 if found is None else workspace_bytes(found, shape, grad)


@pytest.mark.parametrize(
    ("sizes", "recorded"),
    [
        # An H200's allocator, cuDNN 9.19 (micro/cases.jsonl.gz; the last a program's).
        ((3, 32, 61, 54), 8_155_648),
        ((2, 282, 128, 63), 36_725_760 - 282 * 128 * 9 * 4),
        ((160, 27, 13, 24), 60_510_720 - 12_800),
        ((256, 16, 32, 32), 448_790_528),
    ],
)
def test_it_borrows_what_was_recorded(sizes: Sizes, recorded: int) -> None:
    assert borrowed(gradient(sizes), tf32=True) == pytest.approx(recorded, rel=1e-5)


@pytest.mark.parametrize(
    ("sizes", "tf32", "name", "recorded_s"),
    [
        ((2, 107, 10, 34), True, "winograd", 12.9e-6),
        ((2, 100, 254, 34), True, "winograd", 25.8e-6),
        ((6, 48, 54, 56), False, "winograd", 40.2e-6),
        ((125, 34, 336, 23), False, "winograd", 347.2e-6),
        ((160, 27, 13, 24), True, "fft2d", 59.1e-6),
        ((256, 16, 16, 32), True, "fft2d", 382e-6),
        ((256, 32, 32, 16), True, "fft2d", 103e-6),
        ((22, 4, 32, 103), True, "conv_wgrad_tiles", 64.2e-6),
        ((21, 3, 80, 56), False, "conv_wgrad_tiles", 35.8e-6),
    ],
)
def test_the_recorded_kernels_are_taken_and_priced(
    sizes: Sizes, tf32: bool, name: str, recorded_s: float
) -> None:
    found = kernels(sizes, tf32)
    assert any(k.name.startswith(name) for k in found)
    assert sum(k.duration_s for k in found) == pytest.approx(recorded_s, rel=0.25)


def test_points_and_pieces() -> None:
    op = gradient((2, 64, 64, 54))
    grad, x, weight = op.inputs
    shape = conv_shape(op, x, weight, grad)
    squares = winograd(op, shape, x, grad)
    assert squares is not None
    assert (squares.points, squares.pieces) == (36, 2 * 14 * 14)
    op = gradient((128, 16, 16, 31))
    waves = fourier(op, conv_shape(op, *op.inputs[1:], op.inputs[0]), op.inputs[1], True)
    assert waves is not None
    assert (waves.side, waves.points) == (64, 64 * 33)  # 31 and the padding exceed 32
    # ResNet-34's first stage runs on tensor cores (`zoo/resnet34-train.csv.gz`).
    op = gradient((128, 64, 64, 56))
    assert fourier(op, conv_shape(op, *op.inputs[1:], op.inputs[0]), op.inputs[1], True) is None


def test_whom_it_does_not_suit() -> None:
    def found(op: Op) -> bool:
        return borrowed(op, tf32=True) > 0

    assert found(gradient((8, 64, 64, 28)))
    assert not found(gradient((8, 64, 64, 28), taps=5))
    assert not found(gradient((8, 64, 64, 28), stride=(2, 2)))
    assert not found(gradient((8, 64, 64, 28), dilation=(2, 2)))
    assert not found(gradient((8, 64, 64, 28), groups=2))


def test_signals_of_one_tap_leave_partial_sums_for_an_image() -> None:
    """4,096 images of 4,992 x 128 channels take 6 ms of an H200, not the two of a turned one."""
    grad, x, weight = (
        dense(*s, dtype="float32") for s in ((4096, 128, 16), (4096, 4992, 16), (128, 4992, 1))
    )
    found = run(
        "aten::convolution_backward",
        (grad, x, weight),
        (weight,),
        "h200",
        {"tf32_cudnn": True},
        stride=(1,),
        padding=(0,),
        dilation=(1,),
        groups=1,
        output_mask=(False, True, False),
        transposed=False,
    )
    assert [k.name for k in found][-1] == "reduce_wgrad"
    assert sum(k.duration_s for k in found) == pytest.approx(6.3e-3, rel=0.2)
