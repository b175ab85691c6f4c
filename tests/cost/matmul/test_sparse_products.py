"""Products of sparse matrices beside what an H200 took."""

from __future__ import annotations

import pytest
from memory_work import dense, run, seconds

from gpuscope.cost.types import Kernel


def product(values: int, rows: int, columns: int, **args: object) -> tuple[Kernel, ...]:
    places = dense(2, values, dtype="int64", at=0), dense(values, at=1)
    given = (*places, dense(rows, columns, at=2))
    return run("aten::mm.sparse", given, (dense(rows, columns, at=3),), hot=True, **args)


@pytest.mark.parametrize(
    ("values", "rows", "columns", "measured_us"),
    [(32_700, 256, 64, 10.5), (2_096_000, 2048, 64, 113.1), (381_500, 4096, 256, 56.3)],
)
def test_compressed_ones(values: int, rows: int, columns: int, measured_us: float) -> None:
    made = product(values, rows, columns, compressed=True)
    assert len(made) == 4
    assert seconds(made) == pytest.approx(measured_us * 1e-6, rel=0.4)


@pytest.mark.parametrize(
    ("values", "rows", "columns", "measured_us"),
    [(32_700, 256, 64, 25.7), (381_500, 4096, 256, 514.1)],
)
def test_those_of_places(values: int, rows: int, columns: int, measured_us: float) -> None:
    made = product(values, rows, columns)
    assert len(made) == 10
    assert seconds(made) == pytest.approx(measured_us * 1e-6, rel=0.25)
