"""The curve of a kernel's time over its size."""

from __future__ import annotations

from dataclasses import replace

import pytest
from run_builders import spec

from gpuscope.document.blocks import Lines
from gpuscope.explanation.operators import kernels_of, target, work_on
from gpuscope.program.types import Op
from gpuscope.views.report.kernel_size import size_blocks

ON = target("h200")
BIG = spec(8192, 4096)
OP = Op(0, "aten::relu", inputs=(BIG,), outputs=(replace(BIG, storage=1),))
KERNEL = kernels_of(work_on(OP, ON))[0]


def _curve(op: Op = OP) -> Lines:
    (block,) = size_blocks(op, KERNEL, ON)
    assert isinstance(block, Lines)
    return block


def test_the_curve_passes_through_the_kernel_and_never_falls() -> None:
    curve = _curve().series[0]
    at = curve.x.index(8192.0)
    assert curve.y[at] == KERNEL.duration_s
    times = [y for y in curve.y if y is not None]
    assert times == sorted(times)
    assert all(low <= y <= high for low, y, high in zip(curve.low, times, curve.high, strict=True))
    assert (_curve().marks[0].x, _curve().marks[0].y) == (8192.0, KERNEL.duration_s)


def test_it_lies_above_what_bandwidth_allows_and_nears_it_when_large() -> None:
    time, floor = _curve().series
    pairs = [(t, f) for t, f in zip(time.y, floor.y, strict=True) if t and f]
    assert all(t >= f for t, f in pairs)
    shares = [f / t for t, f in pairs]
    assert shares[0] < 0.2 < 0.7 < shares[-1]
    assert floor.y[time.x.index(8192.0)] == pytest.approx(2 * BIG.nbytes / 4.8e12)


def test_a_kernel_that_its_model_does_not_know_has_no_curve() -> None:
    assert size_blocks(OP, replace(KERNEL, duration_s=KERNEL.duration_s * 3), ON) == ()
    assert size_blocks(OP, replace(KERNEL, kind="matmul"), ON) == ()
    assert size_blocks(replace(OP, name="mine::unheard_of"), KERNEL, ON) == ()
    scalar = spec()
    assert size_blocks(replace(OP, inputs=(scalar,), outputs=(scalar,)), KERNEL, ON) == ()


def test_a_reduction_without_its_options_has_no_curve() -> None:
    out = spec(8192, 1)
    op = Op(0, "aten::sum", inputs=(BIG,), outputs=(out,), args={"dim": (1,), "keepdim": True})
    kernel = max(kernels_of(work_on(op, ON)), key=lambda k: k.duration_s)
    assert len(size_blocks(op, kernel, ON)) == 1
    assert size_blocks(replace(op, args={}), kernel, ON) == ()
