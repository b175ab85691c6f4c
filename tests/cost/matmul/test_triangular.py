from __future__ import annotations

import pytest
from memory_work import dense, run, seconds

from gpuscope.program.types import TensorSpec


def _columns(*shape: int) -> TensorSpec:
    """Matrices whose columns are innermost."""
    *batch, rows, count = shape
    return TensorSpec(shape, (*(rows * count for _ in batch), 1, rows), "float32", "device", -1)


def _solved(rows: int, count: int, batch: int) -> float:
    a, b = _columns(batch, rows, rows), _columns(batch, rows, count)
    return seconds(run("linalg_solve_triangular", (a, b), (b,), hot=True, left=True))


@pytest.mark.parametrize(
    ("rows", "count", "batch", "us"),
    [
        (64, 128, 634, 153.6),
        (64, 64, 173, 28.0),
        (128, 128, 45, 66.4),
        (32, 128, 29, 10.0),
        (64, 64, 3, 28.9),
        (128, 339, 1, 20.4),
        # Of a gated delta rule: 1,024 matrices of 128 rows, 256 right sides.
        (128, 256, 1024, 925.0),
    ],
)
def test_recorded_solves(rows: int, count: int, batch: int, us: float) -> None:
    assert _solved(rows, count, batch) == pytest.approx(us * 1e-6, rel=0.25)


def test_a_batch_takes_as_long_as_one_until_the_device_is_full() -> None:
    assert _solved(64, 64, 16) == pytest.approx(_solved(64, 64, 128), rel=0.1)
    assert _solved(64, 64, 1024) > 3.5 * _solved(64, 64, 128)


def test_up_to_eight_large_matrices_are_solved_one_by_one() -> None:
    assert _solved(64, 64, 8) > 2 * _solved(64, 64, 9)
    a, b = dense(2, 64, 64), dense(2, 64, 1)
    names = [k.name for k in run("linalg_solve_triangular", (a, b), (b,))]
    assert names.count("trsv") == 2


def test_panels_are_updated_by_products() -> None:
    a, b = _columns(16, 192, 192), _columns(16, 192, 32)
    made = run("linalg_solve_triangular", (a, b), (b,), left=True)
    assert [k.name for k in made].count("batch_trsm") == 3
    assert sum(k.flops for k in made) == 2 * 64 * (128 + 64) * 32 * 16
