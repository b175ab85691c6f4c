"""The matrix product that a pass of a convolution is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matmul_work import channels_last, dense

from gpuscope.cost.convolution.product import ConvProduct, implicit_product, plain_product
from gpuscope.cost.convolution.shape import Pass, conv_shape
from gpuscope.cost.matmul.gemm import plan
from gpuscope.cost.matmul.model import Operand
from gpuscope.cost.registry import Constants, Work
from gpuscope.hardware import calibration_for, device
from gpuscope.program.types import Op, TensorSpec

H200 = device("h200")


def made(which: Pass, c: int, k: int, r: int, last: bool = True, n: int = 4) -> ConvProduct:
    """That of `n` images of 28 x 28."""
    make = channels_last if last else dense
    x, y, weight = make(n, c, 28, 28), make(n, k, 28, 28), make(k, c, r, r)
    args = {"stride": (1, 1), "padding": (r // 2,) * 2, "dilation": (1, 1), "groups": 1}
    op = Op(0, "aten::convolution", inputs=(x, weight), outputs=(y,), args=args)
    work = Work(op, H200, Constants(calibration_for(H200)))
    shape = conv_shape(op, x, weight, y)
    found = {"forward": (x, weight, y), "data_gradient": (y, weight, x)}
    a, b, out = found.get(which, (y, x, weight))
    build = plain_product if r == 1 else implicit_product
    operands: tuple[Operand, Operand] = (Operand(a, False), Operand(b, False))
    result: TensorSpec = out
    return build(work, shape, which, "bfloat16", *operands, result)


@pytest.mark.parametrize("which", ["forward", "data_gradient", "weight_gradient"])
def test_a_pass_has_the_flops_of_the_others(which: Pass) -> None:
    product = made(which, 64, 128, 3)
    assert product.flops == 2 * 4 * 28 * 28 * 64 * 128 * 9 == product.problem.flops


def test_a_filter_of_one_tap_is_a_product_an_image_where_channels_are_first() -> None:
    first, last = made("forward", 64, 128, 1, last=False), made("forward", 64, 128, 1)
    assert (first.problem.batch, last.problem.batch) == (4, 1)
    assert first.problem.flops == last.problem.flops
    weights = made("weight_gradient", 64, 128, 1, last=False)
    assert weights.partial_bytes == 4 * 4 * 64 * 128


def test_the_weight_gradient_alone_cuts_its_sum() -> None:
    forward, weights = made("forward", 512, 64, 3, n=1), made("weight_gradient", 64, 64, 3, n=64)
    assert plan(forward.problem, forward.machine).split == 1
    assert plan(weights.problem, weights.machine).split > 1


def test_few_channels_slow_the_arithmetic_alone() -> None:
    few = made("forward", 3, 64, 3)
    assert few.slow > 1.0
    found = plan(few.problem, few.machine)
    slowed = few.slowed(found)
    assert slowed.duration_s - found.duration_s == pytest.approx((few.slow - 1.0) * found.compute_s)
    assert replace(few, slow=1.0).slowed(found) == found
