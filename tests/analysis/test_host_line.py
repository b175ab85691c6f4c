"""Host threads laid flat, against looking at every nanosecond."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis.host_line import HostLine, host_threads
from gpuscope.timeline.types import EVENT_KINDS, Events, Lane, Timeline

OPERATOR, PYTHON, SYNC = (EVENT_KINDS.index(k) for k in ("operator", "python", "sync"))


def nested(draw: st.DrawFn, low: int, high: int, depth: int) -> list[tuple[int, int]]:
    """Properly nested intervals inside [low, high], each child after the one before it."""
    found: list[tuple[int, int]] = []
    at = low
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(at, high))
        end = draw(st.integers(start, high))
        found.append((start, end))
        if depth:
            found += nested(draw, start, end, depth - 1)
        at = end
    return found


@st.composite
def threads(draw: st.DrawFn) -> list[list[tuple[int, int, int]]]:
    kinds = st.sampled_from([OPERATOR, PYTHON, SYNC])
    return [
        [(s, e, draw(kinds)) for s, e in nested(draw, 0, 40, 3)]
        for _ in range(draw(st.integers(1, 3)))
    ]


def timeline(lanes: list[list[tuple[int, int, int]]]) -> Timeline:
    rows = [(s, e - s, k, i) for i, lane in enumerate(lanes) for s, e, k in lane]
    rows.sort(key=lambda row: (row[0], row[3]))
    start, duration, kind, lane = (
        (np.array(c, np.int64) for c in zip(*rows, strict=True))
        if (rows)
        else (np.zeros(0, np.int64),) * 4
    )
    none = np.full(len(start), -1, np.int64)
    events = Events(start, duration, np.zeros(len(start), np.int64), kind, lane, none, none, none)
    hosts = tuple(Lane(f"host {i}", "host", 0, -1) for i in range(len(lanes)))
    return Timeline(("event",), hosts, events)


def innermost(data: Timeline, lane: int, time: int) -> int:
    """The open event of the least length, by its kind and interval (equal ones are alike)."""
    events = data.events
    open_ = [
        i
        for i in range(len(events))
        if events.lane[i] == lane and events.start_ns[i] <= time < events.end_ns[i]
    ]
    return min(open_, key=lambda i: (events.duration_ns[i], -i), default=-1)


def interval(data: Timeline, row: int) -> tuple[int, int] | None:
    events = data.events
    return None if row < 0 else (int(events.start_ns[row]), int(events.end_ns[row]))


@given(threads())
def test_each_moment_has_its_innermost_event(lanes: list[list[tuple[int, int, int]]]) -> None:
    data = timeline(lanes)
    found = host_threads(data, 0)
    for lane, line in found.lines.items():
        for time in range(-1, 43):
            row = int(line.at(np.array([time]))[0])
            assert interval(data, row) == interval(data, innermost(data, lane, time))


@given(threads())
def test_the_event_around_is_the_shortest_that_holds_it(
    lanes: list[list[tuple[int, int, int]]],
) -> None:
    data = timeline(lanes)
    parent = host_threads(data, 0).parent
    events = data.events
    for row in range(len(events)):
        start, end = interval(data, row) or (0, 0)
        around = int(parent[row])
        if around >= 0:
            low, high = interval(data, around) or (0, 0)
            assert low <= start
            assert end <= high
            assert events.lane[around] == events.lane[row]
        if end > start:
            strictly = [
                events.duration_ns[i]
                for i in range(len(events))
                if events.lane[i] == events.lane[row]
                and events.start_ns[i] <= start
                and end <= events.end_ns[i]
                and events.duration_ns[i] > end - start
            ]
            assert (around >= 0) or not strictly
            assert around < 0 or events.duration_ns[around] <= min(strictly, default=end - start)


@given(threads(), st.lists(st.tuples(st.integers(-5, 45), st.integers(0, 20)), max_size=5))
def test_pieces_cover_each_interval_once(
    lanes: list[list[tuple[int, int, int]]], wanted: list[tuple[int, int]]
) -> None:
    data = timeline(lanes)
    line = host_threads(data, 0).merged
    start = np.array([s for s, _ in wanted], np.int64)
    end = start + np.array([d for _, d in wanted], np.int64)
    pieces = line.cut(start, end)
    assert (pieces.end_ns > pieces.start_ns).all()
    for i in range(len(wanted)):
        own = pieces.interval == i
        begin, close = pieces.start_ns[own].tolist(), pieces.end_ns[own].tolist()
        if start[i] == end[i]:
            assert not own.any()
            continue
        assert begin[0] == start[i]
        assert close[-1] == end[i]
        assert begin[1:] == close[:-1]
        assert pieces.event[own].tolist() == line.at(pieces.start_ns[own]).tolist()


def test_the_merged_line_follows_the_work_between_threads() -> None:
    data = timeline(
        [
            [(0, 100, PYTHON), (0, 20, OPERATOR), (80, 90, OPERATOR)],
            [(30, 70, OPERATOR), (40, 50, SYNC)],
        ]
    )
    found = host_threads(data, 0)
    rows = found.merged.at(np.array([10, 25, 35, 45, 60, 75, 85, 95, 100]))
    kinds = [int(data.events.kind[row]) if row >= 0 else -1 for row in rows.tolist()]
    assert kinds == [OPERATOR, PYTHON, OPERATOR, SYNC, OPERATOR, PYTHON, OPERATOR, PYTHON, -1]


def test_a_silent_busy_thread_does_not_hide_the_python_of_another() -> None:
    data = timeline([[(0, 10, OPERATOR), (10, 20, OPERATOR)], [(0, 90, PYTHON), (30, 40, SYNC)]])
    found = host_threads(data, 0)
    assert len(found.lanes) == 2
    rows = found.merged.at(np.array([5, 25, 35, 60, 95]))
    kinds = [int(data.events.kind[row]) if row >= 0 else -1 for row in rows.tolist()]
    assert kinds == [OPERATOR, PYTHON, SYNC, PYTHON, -1]


def test_nearest_climbs_to_what_is_wanted() -> None:
    data = timeline([[(0, 50, PYTHON), (5, 40, OPERATOR), (10, 20, SYNC)]])
    found = host_threads(data, 0)
    kind = data.events.kind
    sync = int(np.flatnonzero(kind == SYNC)[0])
    rows = np.array([sync, -1])
    assert interval(data, int(found.nearest(rows, kind == PYTHON)[0])) == (0, 50)
    assert interval(data, int(found.nearest(rows, kind == OPERATOR)[0])) == (5, 40)
    assert found.nearest(rows, kind == SYNC).tolist() == [sync, -1]
    assert found.nearest(rows, kind == 99).tolist() == [-1, -1]


def test_nothing_recorded_is_one_empty_piece() -> None:
    line = HostLine.merged([], timeline([]).events)
    pieces = line.cut(np.array([3]), np.array([9]))
    assert (pieces.start_ns.tolist(), pieces.end_ns.tolist()) == ([3], [9])
    assert pieces.event.tolist() == [-1]
