"""Clock offsets from the ends of collectives."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis.clock_skew import Offset, clock_offsets, joint_offsets


def readings(offsets: list[int], ends: list[int]) -> dict[int, Offset]:
    rank = np.tile(np.arange(len(offsets)), len(ends))
    number = np.repeat(np.arange(len(ends)), len(offsets))
    time = np.repeat(np.array(ends, np.int64), len(offsets)) + np.array(offsets)[rank]
    return dict(clock_offsets(time, rank, number))


def test_offsets_are_against_the_median_rank() -> None:
    found = readings([0, 500, -300], [1_000, 5_000, 9_000])
    assert {rank: offset.offset_ns for rank, offset in found.items()} == {0: 0, 1: 500, 2: -300}
    assert found[1].readings == 3
    assert found[1].spread_ns == 0


def test_one_late_exit_does_not_move_the_clock() -> None:
    end = np.array([100, 100, 200, 200, 300, 9_300], np.int64)
    found = clock_offsets(end, np.array([0, 1] * 3), np.array([0, 0, 1, 1, 2, 2]))
    assert found[1].offset_ns == 0


def test_nothing_to_compare() -> None:
    none = np.zeros(0, np.int64)
    assert clock_offsets(none, none, none) == {}
    assert clock_offsets(np.array([5]), np.array([0]), np.array([0])) == {}
    assert joint_offsets([]) == {}


@given(
    st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=6),
    st.lists(st.integers(0, 10**12), min_size=1, max_size=8, unique=True),
)
def test_any_constant_offsets_are_recovered(offsets: list[int], ends: list[int]) -> None:
    found = readings(offsets, ends)
    middle = sorted(offsets)[(len(offsets) - 1) // 2]
    assert [found[r].offset_ns for r in range(len(offsets))] == [o - middle for o in offsets]


def test_groups_that_share_ranks_are_joined() -> None:
    # True clocks: ranks 0 and 1 at 0, ranks 2 and 3 ahead by 1000. Each group knows only itself.
    first = {0: Offset(0, 1, 9), 1: Offset(0, 1, 9)}
    second = {2: Offset(0, 1, 9), 3: Offset(0, 1, 9)}
    across = {0: Offset(0, 5, 2), 2: Offset(1_000, 5, 2)}
    found = joint_offsets([first, second, across])
    assert {rank: offset.offset_ns for rank, offset in found.items()} == {
        0: 0,
        1: 0,
        2: 1_000,
        3: 1_000,
    }
    assert found[0].spread_ns == 5
    assert found[0].readings == 11
