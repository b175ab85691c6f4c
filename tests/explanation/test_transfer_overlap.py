"""Chunks and two buffers: times by hand, conservation, limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.explanation.transfer_case import make_case
from gpuscope.explanation.transfer_overlap import (
    best_chunks,
    chunk_table,
    how_to,
    in_chunks,
    overlapped,
    side_by_side,
)


def test_two_chunks_by_hand() -> None:
    """Copies end at 1 and 2, kernels at 3 and 5: the second copy is under the first kernel."""
    found = overlapped(1.0, 2.0, 2)
    assert (found.total_s, found.copy_only_s, found.both_s, found.compute_only_s, found.idle_s) == (
        5.0,
        1.0,
        1.0,
        3.0,
        0.0,
    )


def test_a_third_chunk_waits_for_its_buffer() -> None:
    """With kernels of 4 the third copy begins at 5, when the first kernel has ended."""
    found = overlapped(1.0, 4.0, 3)
    assert found.total_s == 13.0
    assert found.both_s == 2.0


def test_one_buffer_hides_nothing() -> None:
    found = overlapped(1.0, 2.0, 4, buffers=1)
    assert (found.total_s, found.both_s) == (12.0, 0.0)


@given(st.floats(1e-6, 10), st.floats(1e-6, 10), st.integers(1, 40), st.integers(1, 4))
def test_parts_add_up_and_limits_hold(
    copy_s: float, compute_s: float, chunks: int, buffers: int
) -> None:
    found = overlapped(copy_s, compute_s, chunks, buffers)
    parts = found.copy_only_s + found.both_s + found.compute_only_s + found.idle_s
    assert parts == pytest.approx(found.total_s)
    assert found.copy_only_s + found.both_s == pytest.approx(chunks * copy_s)
    assert found.compute_only_s + found.both_s == pytest.approx(chunks * compute_s)
    longer, both = max(copy_s, compute_s), copy_s + compute_s
    slack = 1 + 1e-9
    assert chunks * longer <= found.total_s * slack
    assert found.total_s <= chunks * both * slack
    if buffers > 1:
        assert found.total_s == pytest.approx((chunks - 1) * longer + both)


def test_the_bars_are_the_times() -> None:
    case = make_case("1GB", "h200", "h2d")
    block = side_by_side(case, case.time_s(True))
    totals = [sum(part.value for part in bar.parts) for bar in block.bars]
    assert totals[0] == pytest.approx(case.time_s(False) + case.time_s(True))
    assert totals[1] == pytest.approx(2 * case.time_s(True))
    assert case.time_s(True) < totals[2] < 1.1 * case.time_s(True)


def test_the_best_number_is_marked_and_near_the_least() -> None:
    case = make_case("1GB", "h200", "h2d")
    table = chunk_table(case, case.time_s(True))
    totals = [row[2] for row in table.rows]
    (marked,) = table.marked
    assert totals[marked] <= min(totals) * 1.01  # type: ignore[type-var, operator]
    assert table.rows[marked][0] == best_chunks(case, case.time_s(True))
    assert in_chunks(case, case.time_s(True), 1).both_s == 0


def test_a_small_copy_is_not_cut() -> None:
    case = make_case(1024, "h200", "h2d")
    assert best_chunks(case, case.time_s(True)) <= 2
    one = make_case(1, "h200", "h2d")
    assert best_chunks(one, one.time_s(True)) == 1


def test_the_code_is_python() -> None:
    compile("\n".join(line.text for line in how_to().lines), "how_to", "exec")
