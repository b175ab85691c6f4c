"""Communication kernels as columns, with sort and group."""

from __future__ import annotations

from dataclasses import replace

from rank_builder import RankBuilder

from gpuscope.analysis.collective_calls import communication_calls
from gpuscope.timeline.types import Source


def test_columns_of_two_ranks() -> None:
    b = RankBuilder()
    b.work(0, 5, rank=0)
    b.meet({3: 20, 0: 10}, 10, elements=7, sequence=4)
    calls = communication_calls(b.timeline())
    assert calls.ranks == (0, 3)
    assert calls.rank.tolist() == [0, 1]
    assert calls.start_ns.tolist() == [10_000, 20_000]
    assert calls.duration_ns.tolist() == [20_000, 10_000]
    assert calls.elements.tolist() == [7, 7]
    assert calls.sequence.tolist() == [4, 4]
    assert calls.groups == (("0", (0, 3), 2),)
    assert [calls.sorts[i] for i in calls.sort] == ["all_reduce"] * 2


def test_members_may_come_from_the_file() -> None:
    b = RankBuilder()
    b.meet({0: 0}, 10, group="tp", members=(), size=2)
    b.meet({2: 0}, 10, group="tp", members=(), size=2)
    b.sources = [
        Source(0, "a.json", groups={"tp": (0, 1)}),
        Source(2, "b.json", groups={"tp": (2, 3)}),
    ]
    calls = communication_calls(b.timeline())
    assert sorted(members for _, members, _ in calls.groups) == [(0, 1), (2, 3)]


def test_a_stream_of_two_groups_tells_nothing_of_an_unknown_call() -> None:
    b = RankBuilder()
    b.meet({0: 0}, 5, group="dp", members=(0, 1))
    b.meet({0: 10}, 5, group="tp", members=(0, 2))
    b.meet({0: 20}, 5, group=None)
    calls = communication_calls(b.timeline())
    assert calls.groups[int(calls.group[2])] == ("", (), None)


def test_nothing_recorded_but_names() -> None:
    b = RankBuilder()
    b.meet({0: 0}, 5, kernel="ncclDevKernel_Broadcast_RING_LL")
    calls = communication_calls(replace(b.timeline(), recorded=None, collectives=()))
    assert calls.sorts == ("broadcast",)
    assert calls.elements.tolist() == [-1]
    assert len(communication_calls(RankBuilder().timeline())) == 0
