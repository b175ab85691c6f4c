"""Merging ranks: one clock, equal strings once, columns that still point at what they meant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.errors import InvalidValueError
from gpuscope.program.types import Op
from gpuscope.timeline.ranks import merge, ranks_of, with_rank
from gpuscope.timeline.types import (
    EVENT_KINDS,
    Collective,
    Counter,
    Events,
    Lane,
    Recorded,
    Source,
    Step,
    Timeline,
)

LAUNCH, COMMUNICATION = EVENT_KINDS.index("launch"), EVENT_KINDS.index("communication")


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def rank_timeline(
    rank: int, *, base_ns: int = 0, delay_ns: int = 0, kernel: str = "ncclAllReduce", known=True
) -> Timeline:
    """A launch at 0 and the collective that it started at 10, both moved by `delay_ns`."""
    one = np.ones((1, 3), np.int64)
    return Timeline(
        names=("cudaLaunchKernel", kernel),
        lanes=(Lane("host", "host", rank, -1), Lane("stream 7", "stream", rank, rank)),
        events=Events(
            start_ns=ints(delay_ns, delay_ns + 10),
            duration_ns=ints(5, 100),
            name=ints(0, 1),
            kind=ints(LAUNCH, COMMUNICATION),
            lane=ints(0, 1),
            op=ints(0, 0),
            kernel=ints(-1, -1),
            correlation=ints(3, 3),
        ),
        steps=(Step(delay_ns, delay_ns + 110, rank),),
        ops=(Op(0, f"op of rank {rank}"),),
        origin="measured",
        recorded=Recorded(
            event=ints(1),
            grid=one,
            block=one,
            registers=ints(32),
            shared_bytes=ints(0),
            occupancy=np.array([0.5]),
            nbytes=ints(-1),
            stream=ints(7),
            graph=ints(-1),
            launch=ints(0),
            operator=ints(-1),
            collective=ints(0),
            sequence=ints(1),
        ),
        collectives=(Collective("all_reduce", "dp", 2),),
        sources=(Source(rank, f"rank{rank}.json", base_ns=base_ns, rank_known=known),),
    )


def test_times_move_to_one_clock() -> None:
    merged = merge([rank_timeline(1, base_ns=1_000_050), rank_timeline(0, base_ns=1_000_000)])
    by_rank = {
        merged.lanes[lane].rank: start
        for lane, start, kind in zip(
            merged.events.lane, merged.events.start_ns, merged.events.kind, strict=True
        )
        if kind == COMMUNICATION
    }
    assert by_rank == {0: 10, 1: 60}
    assert [(s.rank, s.start_ns) for s in merged.steps] == [(0, 0), (1, 50)]
    assert [source.base_ns for source in merged.sources] == [1_000_000, 1_000_000]
    assert ranks_of(merged) == (0, 1)
    assert merged.notes == ()


def test_columns_still_point_at_what_they_meant() -> None:
    merged = merge([rank_timeline(0), rank_timeline(1, delay_ns=3, kernel="other")])
    recorded, events = merged.recorded, merged.events
    assert recorded is not None
    assert (np.diff(events.start_ns) >= 0).all()
    for row in range(len(recorded)):
        event, launch = recorded.event[row], recorded.launch[row]
        assert events.kind[event] == COMMUNICATION
        assert events.kind[launch] == LAUNCH
        rank = merged.lanes[events.lane[event]].rank
        assert merged.lanes[events.lane[launch]].rank == rank
        assert merged.names[events.name[event]] == ("other" if rank else "ncclAllReduce")
        assert merged.ops[events.op[event]].name == f"op of rank {rank}"
        assert recorded.operator[row] == -1
        assert merged.collectives[recorded.collective[row]].name == "all_reduce"
    assert len(merged.collectives) == 1
    assert merged.names == ("cudaLaunchKernel", "ncclAllReduce", "other")


def test_correlations_stay_apart() -> None:
    merged = merge([rank_timeline(0), rank_timeline(1)])
    pairs = {}
    for lane, number in zip(merged.events.lane, merged.events.correlation, strict=True):
        pairs.setdefault(int(number), set()).add(merged.lanes[lane].rank)
    assert all(len(ranks) == 1 for ranks in pairs.values())
    assert len(pairs) == 2


def test_a_clock_of_its_own_is_told_and_aligned() -> None:
    year = 365 * 86_400 * 10**9
    parts = [rank_timeline(0), rank_timeline(1, delay_ns=7), rank_timeline(2, base_ns=year)]
    merged = merge(parts)
    start = {
        merged.lanes[lane].rank: at
        for lane, at in zip(merged.events.lane[::-1], merged.events.start_ns[::-1], strict=True)
    }
    assert start == {0: 0, 1: 7, 2: 0}
    assert "clock of rank 2" in merged.notes[0]
    assert [source.base_ns for source in merged.sources] == [0, 0, year]


def test_recordings_that_merely_follow_each_other_keep_their_times() -> None:
    merged = merge([rank_timeline(0), rank_timeline(1, base_ns=500_000_000)])
    assert merged.notes == ()
    assert int(merged.events.start_ns.max()) == 500_000_010


def test_one_timeline_stays_itself() -> None:
    one = rank_timeline(0)
    assert merge([one]) is one


def test_counters_are_those_of_the_first_rank_that_has_them() -> None:
    with_memory = rank_timeline(1, base_ns=20)
    counter = Counter("allocated", "bytes", ints(0, 5), np.array([1.0, 2.0]))
    from dataclasses import replace

    merged = merge([rank_timeline(0), replace(with_memory, counters=(counter,))])
    assert merged.counters[0].time_ns.tolist() == [20, 25]


@pytest.mark.parametrize("parts", [[], [rank_timeline(0), rank_timeline(0)]])
def test_nothing_or_a_rank_twice_is_an_error(parts) -> None:
    with pytest.raises(InvalidValueError):
        merge(parts)


def test_predictions_and_recordings_do_not_mix() -> None:
    from dataclasses import replace

    with pytest.raises(InvalidValueError, match="cannot be merged"):
        merge([rank_timeline(0), replace(rank_timeline(1), origin="predicted")])


def test_another_rank_number() -> None:
    moved = with_rank(rank_timeline(0), 5)
    assert ranks_of(moved) == (5,)
    with pytest.raises(InvalidValueError, match="2 ranks"):
        with_rank(merge([rank_timeline(0), rank_timeline(1)]), 3)


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=6))
def test_durations_and_counts_are_kept(delays) -> None:
    parts = [rank_timeline(rank, delay_ns=delay) for rank, delay in enumerate(delays)]
    merged = merge(parts)
    assert len(merged.events) == sum(len(part.events) for part in parts)
    assert merged.events.duration_ns.sum() == 105 * len(parts)
    gaps = (
        merged.events.start_ns[merged.recorded.event]
        - merged.events.start_ns[merged.recorded.launch]
    )
    assert gaps.tolist() == [10] * len(parts)
