from __future__ import annotations

import pytest
from memory_work import dense, one, run

from gpuscope.cost.reduction.scan import scan_threads
from gpuscope.program.types import TensorSpec


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


def test_the_last_dimension_is_scanned_row_by_row_however_it_lies() -> None:
    """4 x 4 x 2,048 whose last dimension lies apart: a copy of 1.8 us, a scan of 5.9; by the
    dimension's number, not by its stride (`scan_dim` in ScanUtils.cuh)."""
    apart, out = TensorSpec((4, 4, 2048), (8192, 1, 4), "float32"), dense(4, 4, 2048)
    copy, scan = run("cumsum", (apart,), (out,), hot=True, dim=-1)
    assert (copy.name, scan.name) == ("copy_strided", "scan_innermost_dim")
    assert copy.written_bytes == out.nbytes
    straight = one("cumsum", (out,), (out,), hot=True, dim=-1)
    assert scan.duration_s == straight.duration_s == pytest.approx(5.9e-6, rel=0.15)


def test_a_dimension_before_the_last_is_scanned_by_a_thread_a_column() -> None:
    """Also where it lies densely: rows are made contiguous, and then it no longer does."""
    dense_first, out = TensorSpec((2048, 64), (1, 2048), "float32"), dense(2048, 64)
    copy, scan = run("cumsum", (dense_first,), (out,), hot=True, dim=0)
    assert (copy.name, scan.name) == ("copy_strided", "scan_outer_dim")
    assert scan.duration_s == one("cumsum", (out,), (out,), hot=True, dim=0).duration_s
