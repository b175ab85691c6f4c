from __future__ import annotations

import pytest
from memory_work import dense, one

from gpuscope.cost.scan import scan_threads


@pytest.mark.parametrize(
    ("rows", "length", "threads"),
    [
        (1024, 768, 16),
        (128, 768, 64),
        (16, 8192, 512),
        (1024, 4096, 32),
        (98304, 128, 512),
        (12288, 128, 16),
        (512, 50257, 256),
    ],
)
def test_scan_rows_are_shared_as_recorded(rows: int, length: int, threads: int) -> None:
    assert scan_threads(rows, length) == threads


def test_a_scan_takes_a_load_and_a_tree_for_each_pass() -> None:
    """8 x 8 int64 in one pass of 16 threads: 1.44 us; 1,024 x 768 in 24 of them: 22.7."""
    small, long = dense(8, 8, dtype="int64"), dense(1024, 768)
    first = one("cumsum", (small,), (small,), hot=True, dim=-1).duration_s
    assert first == pytest.approx(1.44e-6, rel=0.25)
    assert one("cumsum", (long,), (long,), hot=True, dim=-1).duration_s == pytest.approx(
        22.7e-6, rel=0.1
    )
