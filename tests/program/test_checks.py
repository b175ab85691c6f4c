"""Values that C++ looks at inside of an operator: computed, and the host waits for each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from captured import of

from gpuscope.program.types import Program

Step = Callable[[], object]


def waits(program: Program) -> int:
    return sum(bool(op.sync) for op in program.ops)


def by_channel(dtype: torch.dtype) -> Program:
    def build() -> Step:
        weight = torch.randn(64, 32, device="cuda")
        scale, zero = torch.ones(64, device="cuda"), torch.zeros(64, dtype=dtype, device="cuda")
        return lambda: torch.fake_quantize_per_channel_affine(weight, scale, zero, 0, -128, 127)

    return of(build)


def test_rounding_by_channel_waits_for_its_least_and_greatest_zero_point() -> None:
    """As recorded: min, a copy to the host, max, a copy, then the rounding
    (validation/recordings/h200/fourth/quantisation-aware.csv.gz)."""
    names = [op.name.removeprefix("aten::") for op in by_channel(torch.int32).ops]
    item = "_local_scalar_dense"
    assert names[:4] == ["min", item, "max", item]
    assert names[4].startswith("fake_quantize_per_channel")


def test_zero_points_that_are_no_whole_numbers_are_not_looked_at() -> None:
    assert waits(by_channel(torch.int32)) == 2
    assert waits(by_channel(torch.float32)) == 0


@pytest.mark.parametrize(("bounds", "count"), [((0.0, 1.0), 0), ((0.0, 0.0), 2), ((), 2)])
def test_a_histogram_looks_for_its_range_only_where_none_is_given(
    bounds: tuple[float, ...], count: int
) -> None:
    def build() -> Step:
        x = torch.randn(100, device="cuda")
        return lambda: torch.histc(x, 16, *bounds)

    program = of(build)
    assert waits(program) == count


def test_nothing_waits_for_numbers_in_host_memory() -> None:
    def build() -> Step:
        ids = torch.randint(0, 9, (100,))
        return lambda: (torch.histc(ids.float(), 9), torch.ones(1, device="cuda"))

    assert waits(of(build)) == 0
