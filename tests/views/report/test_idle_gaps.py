"""Idle stretches for the timeline's drawing: known gaps, causes, and that nothing is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuscope as gs
from gpuscope.analysis.time_classes import rank_time
from gpuscope.timeline.types import EVENT_KINDS, Events, Lane, Timeline
from gpuscope.views.report.idle_gaps import idle_gaps

TRACES = Path(__file__).parents[2] / "data" / "traces"
HOST, STREAM = 0, 1

Row = tuple[int, int, str, str, int, int]
"""Start and end in microseconds, name, kind, lane, correlation."""


def timeline(rows: list[Row]) -> Timeline:
    """A recording of one rank with one thread and one stream."""
    rows = sorted(rows)
    names = tuple(dict.fromkeys(row[2] for row in rows))
    columns = [
        (
            start * 1000,
            (end - start) * 1000,
            names.index(name),
            EVENT_KINDS.index(kind),
            lane,
            -1,
            -1,
            correlation,
        )
        for start, end, name, kind, lane, correlation in rows
    ]
    lanes = (Lane("host main", "host", 0, -1), Lane("stream 7", "stream", 0, 0))
    events = Events(*np.array(columns, np.int64).T.copy())
    return Timeline(names=names, lanes=lanes, events=events, origin="measured")


def work(start: int, end: int, launched: int, number: int) -> list[Row]:
    """A kernel and its launch call of one microsecond."""
    return [
        (start, end, "kernel", "kernel", STREAM, number),
        (launched, launched + 1, "cudaLaunchKernel", "launch", HOST, number),
    ]


def late_and_loading() -> Timeline:
    """Work until 10, a slow operator until 38, work until 50, a loader until 78, work."""
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    return timeline(
        [
            *work(0, 10, -5, 1),
            (10, 38, "aten::index", "operator", HOST, -1),
            *work(40, 50, 38, 2),
            (50, 78, loader, "other", HOST, -1),
            *work(80, 90, 78, 3),
        ]
    )


def test_each_gap_has_its_cause_and_what_was_at_fault() -> None:
    (gaps,) = idle_gaps(late_and_loading())
    told = [
        (start, length, gaps.causes[cause], gaps.names[what])
        for start, length, cause, what in zip(
            gaps.start_ns, gaps.duration_ns, gaps.cause, gaps.what, strict=True
        )
    ]
    assert (10_000, 28_000, "host dispatching", "aten::index") in told
    loader = next(row for row in told if row[2] == "waiting for data")
    assert loader[0] == 50_000
    assert "DataLoader" in loader[3]
    assert sum(row[1] for row in told) == 60_000
    assert gaps.left_out == 0


def test_of_too_many_the_longest_stay_and_the_rest_is_counted() -> None:
    whole, (few,) = idle_gaps(late_and_loading())[0], idle_gaps(late_and_loading(), most=2)
    assert len(few.start_ns) == 2
    assert sorted(few.duration_ns) == sorted(whole.duration_ns)[-2:]
    assert few.left_out == len(whole.start_ns) - 2
    assert few.left_out_ns + sum(few.duration_ns) == sum(whole.duration_ns)


def test_without_device_work_there_are_none() -> None:
    assert idle_gaps(timeline([(0, 10, "aten::mm", "operator", HOST, -1)])) == ()


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 30), st.booleans()), min_size=1))
def test_stretches_lie_beside_the_work_and_add_up_to_the_idle_time(
    spans: list[tuple[int, int, bool]],
) -> None:
    rows: list[Row] = []
    now = 50
    for number, (gap, length, late) in enumerate(spans):
        start = now + gap
        rows += work(start, start + length, start - (1 if late else 45), number)
        now = start + length
    made = timeline(rows)
    (gaps,) = idle_gaps(made)
    ends = [s + d for s, d in zip(gaps.start_ns, gaps.duration_ns, strict=True)]
    assert all(end <= later for end, later in zip(ends, gaps.start_ns[1:], strict=False))
    assert sum(gaps.duration_ns) == pytest.approx(rank_time(made, 0).idle_s * 1e9)


def test_every_rank_of_a_recording_has_its_own() -> None:
    run = gs.load(TRACES / "4xh200" / "ddp_imbalance")
    found = idle_gaps(run.timeline)
    assert [gaps.rank for gaps in found] == [0, 1, 2, 3]
    for gaps in found:
        told = sum(gaps.duration_ns) + gaps.left_out_ns
        assert told * 1e-9 == pytest.approx(run.analysis.time[gaps.rank].idle_s)
