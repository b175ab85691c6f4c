"""What the residual looks at of a convolution: channels, filters, products, by hand."""

import math

import pytest

from gpuscope.cost.convolution.features import NAMES, features
from gpuscope.cost.registry import Constants, Work
from gpuscope.cost.types import Kernel
from gpuscope.hardware import Calibration, device
from gpuscope.program.types import Op, TensorSpec

KERNELS = (
    Kernel("main", "convolution", 0, 8e-6, 8e-6, 8e-6),
    Kernel("turned", "copy", 0, 2e-6, 2e-6, 2e-6),
)


def spec(*shape: int, last: bool = False, dtype: str = "bfloat16") -> TensorSpec:
    order = (0, *range(2, len(shape)), 1) if last else tuple(range(len(shape)))
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim], step = step, step * shape[dim]
    return TensorSpec(shape, tuple(strides), dtype)


def told(op: Op, tf32: bool = True) -> dict[str, float]:
    h200 = device("h200")
    constants = Constants(Calibration(h200.id, None, "none"))
    work = Work(op, h200, constants, (("tf32_cudnn", tf32),))
    found = features(work, KERNELS)
    return {n.removeprefix("convolution."): f for n, f in zip(NAMES, found, strict=True)}


def forward(dtype: str = "bfloat16", last: bool = False) -> Op:
    x, w = spec(7, 24, 15, 31, last=last, dtype=dtype), spec(56, 12, 3, 7, last=last, dtype=dtype)
    y = spec(7, 56, 15, 15, last=last, dtype=dtype)
    args = {"stride": (1, 2), "padding": (1, 3), "dilation": (1, 1), "groups": 2}
    return Op(0, "aten::convolution", inputs=(x, w), outputs=(y,), args=args)


def backward(*mask: bool, transposed: bool = False) -> Op:
    y, x, w = spec(3, 40, 8, 8), spec(3, 16, 8, 8), spec(40, 16, 3, 3)
    if transposed:
        w = spec(16, 40, 3, 3)
    args = {"output_mask": mask, "transposed": transposed, "groups": 1}
    asked = tuple(t for t, wanted in zip((x, w), mask, strict=False) if wanted)
    return Op(0, "aten::convolution_backward", inputs=(y, x, w), outputs=asked, args=args)


def test_other_operators_have_none() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert set(told(Op(0, "aten::mm", inputs=(spec(3, 4),))).values()) == {0.0}


def test_a_forward_pass_by_hand() -> None:
    found = told(forward())
    assert (found["forward"], found["data_gradient"], found["weight_gradient"]) == (1, 0, 0)
    assert found["images"] == 3.0  # log2(1 + 7)
    assert found["channels_in"] == pytest.approx(math.log2(1 + 12))
    assert found["alignment_in"] == 2.0  # 12 channels a group: 4
    assert found["alignment_out"] == 2.0  # 28
    assert found["width_in"] == 5.0
    assert found["width_out"] == 4.0
    assert found["side_first"] == 2.0
    assert found["side_last"] == 3.0
    assert found["stride"] == pytest.approx(math.log2(3))
    assert found["padding"] == 2.0
    assert found["rows"] == pytest.approx(math.log2(1 + 7 * 15 * 15))
    assert found["depth"] == pytest.approx(math.log2(1 + 12 * 21))
    assert found["tiles"] == pytest.approx(math.log2(1 + math.ceil(7 * 225 / 128) * 2))
    assert found["patches_bytes"] == pytest.approx(math.log2(1 + 7 * 225 * 24 * 21 * 2))
    assert found["longest"] == pytest.approx(3.0)
    assert found["rest"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("dtype", "tf32", "flag"),
    [("float32", False, "float32"), ("float32", True, "tf32"), ("float16", True, "float16")],
)
def test_the_dtype_is_that_of_the_arithmetic(dtype: str, tf32: bool, flag: str) -> None:
    found = told(forward(dtype), tf32)
    assert [n for n in ("float32", "tf32", "bfloat16", "float16") if found[n]] == [flag]


def test_layout_is_told() -> None:
    assert told(forward())["channels_last"] == 0.0
    assert told(forward(last=True))["channels_last"] == 1.0


def test_the_product_is_that_of_the_gradient_asked_for() -> None:
    of_input, of_filter = told(backward(True, False, False)), told(backward(False, True, False))
    assert (of_input["data_gradient"], of_input["weight_gradient"]) == (1, 0)
    assert (of_filter["data_gradient"], of_filter["weight_gradient"]) == (0, 1)
    assert of_input["columns"] == pytest.approx(math.log2(1 + 16))
    assert of_filter["rows"] == pytest.approx(math.log2(1 + 40))
    assert of_filter["depth"] == pytest.approx(math.log2(1 + 3 * 64))


def test_a_transposed_convolution_is_a_data_gradient() -> None:
    ordinary = told(backward(True, False, False))
    turned = told(backward(True, False, False, transposed=True))
    assert ordinary["columns"] == pytest.approx(math.log2(1 + 16))
    assert turned["columns"] == pytest.approx(math.log2(1 + 16))  # a forward pass of 40 channels
    assert turned["depth"] == pytest.approx(math.log2(1 + 40 * 9))
