"""Coverage of times, against counting nanosecond by nanosecond."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis.cover import Cover

intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


def covered(pairs: list[tuple[int, int]]) -> set[int]:
    return {t for start, length in pairs for t in range(start, start + length)}


def cover(pairs: list[tuple[int, int]]) -> Cover:
    start = np.array([s for s, _ in pairs], np.int64)
    return Cover.of(start, start + np.array([d for _, d in pairs], np.int64))


@given(intervals, st.integers(-5, 90), st.integers(0, 40))
def test_within_counts_the_covered_nanoseconds(
    pairs: list[tuple[int, int]], low: int, length: int
) -> None:
    within = cover(pairs).within(np.array([low]), np.array([low + length]))
    assert within[0] == len(covered(pairs) & set(range(low, low + length)))


@given(intervals)
def test_total_is_the_union(pairs: list[tuple[int, int]]) -> None:
    assert cover(pairs).total_ns == len(covered(pairs))


@given(intervals, st.integers(0, 90))
def test_gaps_and_cover_fill_the_window(pairs: list[tuple[int, int]], high: int) -> None:
    start, end = cover(pairs).gaps(0, high)
    free = {t for s, e in zip(start.tolist(), end.tolist(), strict=True) for t in range(s, e)}
    assert free == set(range(high)) - covered(pairs)


def test_a_time_is_held_after_the_start_and_up_to_the_end() -> None:
    held = cover([(10, 5), (20, 5)]).holds(np.array([9, 10, 11, 15, 16, 25, 26]))
    assert held.tolist() == [False, False, True, True, False, True, False]


def test_nothing_covers_nothing() -> None:
    empty = cover([])
    assert empty.total_ns == 0
    assert empty.within(np.array([0]), np.array([9])).tolist() == [0]
    assert empty.holds(np.array([3])).tolist() == [False]
