"""What the residual looks at: sizes, layouts, arguments, by hand."""

from __future__ import annotations

import math

import pytest

from gpuscope.cost.registry import Constants, Work
from gpuscope.cost.residual_features import NAMES, features
from gpuscope.cost.types import Kernel
from gpuscope.hardware import Calibration, device
from gpuscope.program.types import Op, TensorSpec


def spec(*shape: int, stride: tuple[int, ...] | None = None, storage: int = -1) -> TensorSpec:
    dense = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return TensorSpec(shape, stride or dense, "bfloat16", storage=storage)


def told(op: Op, hot: tuple[bool, ...] = (), *kernels: Kernel) -> dict[str, float]:
    h200 = device("h200")
    work = Work(op, h200, Constants(Calibration(h200.id, None, "none")), (), hot)
    kernels = kernels or (Kernel("k", "pointwise", 0, 4e-6, 4e-6, 4e-6),)
    return dict(zip(NAMES, features(work, kernels), strict=True))


def test_every_name_has_one_figure() -> None:
    assert len(set(NAMES)) == len(NAMES) == len(told(Op(0, "aten::add")))


def test_sizes_are_told_from_the_innermost_out() -> None:
    found = told(Op(0, "aten::add", inputs=(spec(3, 7, 31),), outputs=(spec(3, 7, 31),)))
    assert found["input_0.size_1_from_end"] == 5.0  # log2(1 + 31)
    assert found["input_0.size_2_from_end"] == 3.0
    assert found["input_0.size_3_from_end"] == 2.0
    assert found["input_0.size_4_from_end"] == 0.0
    assert found["input_1.elements"] == 0.0


@pytest.mark.parametrize(("inner", "power"), [(7, 0.0), (24, 3.0), (640, 6.0), (2, 1.0)])
def test_alignment_is_the_power_of_two_in_the_innermost_size(inner: int, power: float) -> None:
    assert told(Op(0, "aten::add", inputs=(spec(5, inner),)))["input_0.alignment"] == power


def test_alignment_follows_the_stride_not_the_order_of_sizes() -> None:
    turned = spec(64, 5, stride=(1, 64))
    assert told(Op(0, "aten::mm", inputs=(turned,)))["input_0.alignment"] == 6.0


@pytest.mark.parametrize(
    ("tensor", "layout"),
    [
        (spec(2, 8, 4, 4), 0.0),
        (spec(2, 8, 4, 4, stride=(128, 1, 32, 8)), 1.0),
        (spec(4, 8, stride=(1, 4)), 2.0),
        (spec(4, 8, stride=(0, 1)), 3.0),
        (spec(4, 8, stride=(16, 1)), 4.0),
    ],
)
def test_layouts(tensor: TensorSpec, layout: float) -> None:
    assert told(Op(0, "aten::add", inputs=(tensor,)))["input_0.layout"] == layout


def test_hot_is_a_share_of_bytes() -> None:
    op = Op(0, "aten::add", inputs=(spec(30), spec(10)))
    assert told(op, (False, True))["hot"] == pytest.approx(0.25)


def test_in_place_is_seen() -> None:
    op = Op(0, "aten::add_", inputs=(spec(8, storage=3),), outputs=(spec(8, storage=3),))
    assert told(op)["shared_memory"] == 1.0


@pytest.mark.parametrize(
    ("dim", "place"), [(-1, 1.0), (1, 1.0), (0, 2.0), ((0,), 2.0), (None, 0.0)]
)
def test_the_dimension_counts_from_the_end(dim: object, place: float) -> None:
    op = Op(0, "aten::sum", inputs=(spec(4, 8),), args={"dim": dim})
    assert told(op)["dim_from_end"] == place


def test_the_longest_kernel_speaks_for_all_and_times_add_up() -> None:
    short = Kernel("a", "pointwise", 0, 1e-6, 1e-6, 1e-6, grid=7, limiter="launch")
    long = Kernel("b", "matmul", 0, 3e-6, 3e-6, 3e-6, grid=31, tile=(127, 63), limiter="memory")
    found = told(Op(0, "aten::mm"), (), short, long)
    assert found["duration"] == pytest.approx(2.0)  # log2 of 4 us
    assert found["grid"] == 5.0
    assert (found["tile_0"], found["tile_1"], found["tile_2"]) == (7.0, 6.0, 0.0)
    assert (found["limiter.memory"], found["limiter.launch"]) == (1.0, 0.0)
    assert found["kernels"] == 2.0


def test_the_tail_is_the_empty_part_of_the_last_wave() -> None:
    kernel = Kernel("a", "matmul", 0, 1e-6, 1e-6, 1e-6, waves=1.25)
    assert told(Op(0, "aten::mm"), (), kernel)["tail"] == pytest.approx(0.375)


def test_switches_of_a_program_are_not_looked_at() -> None:
    """Where one changes the kernel, the kernel's dtype says so; elsewhere it changes nothing."""
    h200 = device("h200")
    op = Op(0, "aten::mm", inputs=(spec(8, 8), spec(8, 8)), outputs=(spec(8, 8),))
    kernel = Kernel("k", "matmul", 0, 4e-6, 4e-6, 4e-6)
    constants = Constants(Calibration(h200.id, None, "none"))
    on = (("cudnn_benchmark", True), ("tf32_cudnn", True), ("tf32_matmul", True))
    assert features(Work(op, h200, constants, on), (kernel,)) == features(
        Work(op, h200, constants, ()), (kernel,)
    )
