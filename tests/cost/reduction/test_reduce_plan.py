from __future__ import annotations

import pytest

from gpuscope.cost.reduction.plan import iterated, plan_of
from gpuscope.program.types import TensorSpec


def _spec(shape: tuple[int, ...], order: tuple[int, ...], dtype: str = "float32") -> TensorSpec:
    """Dense, with dimensions from the outermost in memory as `order` has them."""
    stride, step = [0] * len(shape), 1
    for d in reversed(order):
        stride[d], step = step, step * shape[d]
    return TensorSpec(shape, tuple(stride), dtype, "device", -1)


def test_dimensions_that_lie_in_each_other_are_one() -> None:
    last = _spec((8, 64, 16, 16), (0, 2, 3, 1))
    assert iterated(last, (0, 2, 3)) == (((2048, 64),), ((64, 1),))
    assert iterated(last, (1,)) == (((64, 1),), ((2048, 64),))
    # What is kept goes in the order of the result, which is row-major.
    assert iterated(last, (0,)) == (((8, 16384),), ((256, 64), (64, 1)))


@pytest.mark.parametrize(
    ("shape", "order", "dims", "dtype", "name", "grid", "threads"),
    [
        # Recorded on an H200: channels last summed over all else.
        ((8, 64, 128, 128), (0, 2, 3, 1), (0, 2, 3), "bfloat16", "sum", 1024, 128),
        ((8, 320, 32, 32), (0, 2, 3, 1), (0, 2, 3), "bfloat16", "sum", 3 * 128, 128),
        # Rows of 144: sums load eight at once, comparisons four.
        ((11, 105, 144), (0, 1, 2), (2,), "bfloat16", "argmax", 73, 512),
        ((11, 105, 144), (0, 1, 2), (2,), "bfloat16", "sum", 37, 512),
        ((800, 196, 196), (0, 1, 2), (2,), "bool", "all", 9800, 512),
    ],
)
def test_plans_are_those_recorded(
    shape: tuple[int, ...],
    order: tuple[int, ...],
    dims: tuple[int, ...],
    dtype: str,
    name: str,
    grid: int,
    threads: int,
) -> None:
    plan, _ = plan_of(_spec(shape, order, dtype), dims, name, 132, 2048)
    assert (plan.grid, plan.threads) == (grid, threads)


def test_a_middle_axis_of_odd_rows_is_loaded_one_by_one() -> None:
    """33 columns are no multiple of two: no vector, whatever the other dimensions."""
    for width, vector in ((32, 4), (34, 2), (33, 1)):
        plan, innermost = plan_of(_spec((8, 64, width), (0, 1, 2)), (1,), "sum", 132, 2048)
        assert (plan.vector, innermost) == (vector, False)
