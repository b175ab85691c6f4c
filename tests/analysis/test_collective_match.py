"""Which kernels are one collective: by order, by number, across cut recordings; or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_builder import RankBuilder

from gpuscope.analysis.collective_match import Match, match_collectives


def groups_of(match: Match) -> list[dict[int, int]]:
    """For each collective, its ranks with the start of their call in microseconds."""
    calls = match.calls
    found: list[dict[int, int]] = [{} for _ in range(match.count)]
    for row in np.flatnonzero(match.id >= 0).tolist():
        rank = calls.ranks[int(calls.rank[row])]
        found[int(match.id[row])][rank] = int(calls.start_ns[row]) // 1000
    return found


def test_equal_programs_match_by_order() -> None:
    b = RankBuilder()
    b.meet({0: 0, 1: 40}, 10)
    b.meet({0: 60, 1: 100}, 10)
    b.meet({0: 130, 1: 120}, 10)
    match = match_collectives(b.timeline())
    assert groups_of(match) == [{0: 0, 1: 40}, {0: 60, 1: 100}, {0: 130, 1: 120}]
    assert match.complete
    assert match.given_up == ()


def test_without_metadata_all_ranks_are_one_group() -> None:
    b = RankBuilder()
    b.meet({0: 0, 1: 40, 2: 7}, 10, group=None)
    match = match_collectives(b.timeline())
    assert groups_of(match) == [{0: 0, 1: 40, 2: 7}]


def test_one_name_for_two_groups_is_told_apart_by_members() -> None:
    b = RankBuilder()
    for start in (0, 100, 200):
        b.meet({0: start, 1: start + 5}, 10, group="1")
        b.meet({2: start + 30, 3: start + 1}, 10, group="1")
    match = match_collectives(b.timeline())
    assert match.count == 6
    assert all(set(ranks) in ({0, 1}, {2, 3}) for ranks in groups_of(match))


def test_one_name_for_two_groups_without_members_is_given_up() -> None:
    b = RankBuilder()
    b.meet({0: 0, 1: 5}, 10, group="1", members=(), size=2)
    b.meet({2: 30, 3: 1}, 10, group="1", members=(), size=2)
    match = match_collectives(b.timeline())
    assert match.count == 0
    assert match.given_up == ("1",)


def test_a_recording_that_begins_earlier_is_shifted_into_place() -> None:
    b = RankBuilder()
    times = [0, 100, 230, 390, 480, 610, 700]
    for number, start in enumerate(times):
        ranks = {0: start, 1: start + 3, 2: start + 6}
        if number < 3:
            del ranks[2]  # rank 2 is recorded from the fourth on
        b.meet(ranks, 10, members=(0, 1, 2))
    match = match_collectives(b.timeline())
    # What only two of three ranks have cannot be told apart from waiting for the third.
    assert groups_of(match) == [{0: t, 1: t + 3, 2: t + 6} for t in times[3:]]
    assert int((match.id < 0).sum()) == 6


def test_kernels_from_before_the_recording_belong_to_their_stream_s_group() -> None:
    b = RankBuilder()
    b.meet({0: 0, 1: 5}, 10, group=None)
    b.meet({0: 100, 1: 101}, 10)
    b.meet({0: 200, 1: 230}, 10)
    match = match_collectives(b.timeline())
    assert match.count == 3
    assert len({int(group) for group in match.calls.group}) == 1


def test_numbers_decide_where_they_are_recorded() -> None:
    b = RankBuilder()
    b.meet({0: 0, 1: 2}, 10, sequence=7)
    b.meet({0: 50}, 10, sequence=8, members=(0, 1))
    b.meet({0: 100, 1: 104}, 10, sequence=9)
    match = match_collectives(b.timeline())
    assert groups_of(match) == [{0: 0, 1: 2}, {0: 100, 1: 104}]


def test_a_match_in_which_ranks_leave_before_others_come_is_given_up() -> None:
    b = RankBuilder()
    for number in range(10):  # two runs that have nothing to do with each other
        b.meet({0: number * 100}, 10, members=(0, 1))
        b.meet({1: number**3}, 10, members=(0, 1))
    match = match_collectives(b.timeline())
    assert match.count == 0
    assert match.given_up == ("0",)


def test_a_missing_member_makes_it_incomplete() -> None:
    b = RankBuilder()
    b.meet({0: 0, 1: 5}, 10, members=(0, 1, 2))
    match = match_collectives(b.timeline())
    assert match.count == 1
    assert not match.complete


def test_clocks_that_differ_do_not_matter() -> None:
    b = RankBuilder(skew_us={1: 7_000.0})
    for start in (0, 100, 260, 330):
        b.meet({0: start, 1: start + 40}, 10)
    match = match_collectives(b.timeline())
    assert match.count == 4
    ahead = match.offsets[1].offset_ns - match.offsets[0].offset_ns
    assert ahead == 7_000_000
    arrival = match.arrival_ns.reshape(-1)
    for number in range(4):
        rows = np.flatnonzero(match.id == number)
        by_rank = {int(match.calls.rank[row]): int(arrival[row]) for row in rows}
        assert by_rank[1] - by_rank[0] == 40_000


@pytest.mark.parametrize("size", [2, 4])
def test_sends_find_their_receives(size: int) -> None:
    b = RankBuilder()
    members = tuple(range(size))
    kernel = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    for start in (0, 100):
        b.meet({0: start}, 30, name="send", kernel=kernel, members=members)
        b.meet({1: start + 20}, 10, name="recv", kernel=kernel, members=members)
        if size == 4:
            b.meet({2: start + 50}, 9, name="send", kernel=kernel, members=members)
            b.meet({3: start + 45}, 14, name="recv", kernel=kernel, members=members)
    match = match_collectives(b.timeline())
    pairs = [set(ranks) for ranks in groups_of(match)]
    assert pairs == ([{0, 1}] * 2 if size == 2 else [{0, 1}, {2, 3}] * 2)


def test_nothing_to_match() -> None:
    b = RankBuilder()
    b.work(0, 10, rank=0)
    b.work(0, 10, rank=1)
    match = match_collectives(b.timeline())
    assert match.count == 0
    assert len(match.calls) == 0


@given(
    waits=st.lists(st.lists(st.integers(0, 400), min_size=3, max_size=3), min_size=1, max_size=12),
    transfer=st.integers(1, 50),
)
def test_whatever_the_arrivals_order_is_kept(waits: list[list[int]], transfer: int) -> None:
    b, now, expected = RankBuilder(), 0.0, []
    for arrivals in waits:
        expected.append({rank: int(now) + wait for rank, wait in enumerate(arrivals)})
        now = b.meet({rank: now + wait for rank, wait in enumerate(arrivals)}, transfer)
    match = match_collectives(b.timeline())
    assert groups_of(match) == expected


def test_a_clock_that_drifts_does_not_change_who_came_last() -> None:
    b, now = RankBuilder(), 0.0
    for number in range(9):
        b.skew_us = {1: 10.0 * number}  # 10 us more at every meeting, against 6 us of lateness
        now = b.meet({0: now + 6, 1: now}, 300) + 200
    match = match_collectives(b.timeline())
    assert match.count == 9
    for number in range(9):
        rows = np.flatnonzero(match.id == number)
        by_rank = {int(match.calls.rank[row]): int(match.arrival_ns[row]) for row in rows}
        assert by_rank[0] - by_rank[1] == 6_000
