from __future__ import annotations

import pytest
from memory_work import dense, run

from gpuscope.cost.reduction.plan import iterated, plan_of
from gpuscope.cost.reduction.threads import sectors_per_byte
from gpuscope.program.types import TensorSpec


def _turned(shape: tuple[int, ...], order: tuple[int, ...], dtype: str = "float32") -> TensorSpec:
    """Dense, with dimensions from the outermost in memory as `order` has them."""
    stride, step = [0] * len(shape), 1
    for d in reversed(order):
        stride[d], step = step, step * shape[d]
    return TensorSpec(shape, tuple(stride), dtype, "device", -1)


def _asked(spec: TensorSpec, dims: tuple[int, ...]) -> float:
    plan, innermost = plan_of(spec, dims, "sum", 132, 2048)
    return sectors_per_byte(plan, innermost, iterated(spec, dims), spec.itemsize)


def test_dense_rows_and_columns_ask_for_what_they_use() -> None:
    assert _asked(dense(512, 1024), (1,)) == 1.0
    assert _asked(dense(512, 1024), (0,)) == 1.0


def test_values_that_lie_apart_take_a_sector_each() -> None:
    """Rows of pictures that lie channels last: neighbours are 260 bytes apart."""
    spec = _turned((53, 65, 59, 301), (0, 2, 3, 1))
    assert _asked(spec, (3,)) == pytest.approx(8.0, rel=0.05)
    half = _turned((53, 65, 59, 301), (0, 2, 3, 1), "bfloat16")
    assert _asked(half, (3,)) == pytest.approx(16.0, rel=0.05)


@pytest.mark.parametrize(
    ("name", "shape", "order", "dims", "dtype", "us"),
    [
        # Recorded on an H200; short rows, rows apart, middle axes.
        ("amax", (273, 186, 23, 51), (0, 1, 2, 3), (3,), "float16", 391.0),
        ("amax", (122, 60, 76, 66), (0, 2, 3, 1), (3,), "bfloat16", 238.5),
        ("amax", (53, 65, 59, 301), (0, 2, 3, 1), (3,), "float32", 414.0),
        ("sum", (85, 180, 265, 11), (0, 1, 2, 3), (3,), "float32", 229.3),
        ("argmax", (45, 493, 357, 6), (0, 2, 3, 1), (3,), "bfloat16", 420.0),
        ("sum", (6, 18, 236, 28, 54), (0, 1, 2, 3, 4), (0, 4), "float32", 84.6),
    ],
)
def test_recorded_reductions(
    name: str,
    shape: tuple[int, ...],
    order: tuple[int, ...],
    dims: tuple[int, ...],
    dtype: str,
    us: float,
) -> None:
    spec = _turned(shape, order, dtype)
    out = dense(*(n for d, n in enumerate(shape) if d not in dims), dtype=dtype)
    dim: object = dims if name != "argmax" else dims[0]
    made = run(name, (spec,), (out,), dim=dim)[-1]
    assert made.duration_s == pytest.approx(us * 1e-6, rel=0.35)


def test_a_thread_costs_as_much_for_three_values_as_for_a_warp_of_them() -> None:
    """Rows of 3 have threads of their own, most of whose work is to begin and to hand over."""
    few, many = (
        run("amax", (dense(2**19, n),), (dense(2**19),), hot=True, dim=(1,))[-1].compute_s
        for n in (4, 32)
    )
    assert few < many < 12 * few
