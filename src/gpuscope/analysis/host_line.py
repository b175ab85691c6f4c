"""What the host was doing at every moment: nested host events laid flat, thread by thread.

At each moment of a thread the *innermost* open event counts: the one that started last and has not
ended. Laid end to end these pieces cover the thread's time once, so times by what the host did add
up exactly. `HostLine.merged` does the same for all threads that feed the device together: at each
moment the thread counts that is inside an operator, a call or a wait (the one that entered it last,
where several are), so that the line follows the work from the main thread to the autograd thread
and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.columns import distinct, is_any
from gpuscope.timeline.types import EVENT_KINDS, Events, Ints, Timeline

Bools = npt.NDArray[np.bool_]

FEW = 8
"""`HostThreads.nearest` climbs step by step for this many times fewer rows than events."""

_ACTIVE = tuple(EVENT_KINDS.index(kind) for kind in ("operator", "launch", "sync"))
_MARKS = EVENT_KINDS.index("step")


@dataclass(frozen=True, slots=True)
class Pieces:
    """Parts of intervals, each with what the host did in it; equal columns.

    Attributes:
        interval: which of the intervals that were asked for; ascending.
        start_ns, end_ns: the piece.
        event: row in `Events` of the innermost host event, -1 where nothing is recorded.
    """

    interval: Ints
    start_ns: Ints
    end_ns: Ints
    event: Ints

    def __len__(self) -> int:
        """Number of pieces."""
        return len(self.interval)

    @property
    def length_ns(self) -> Ints:
        """Nanoseconds of each piece."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class HostLine:
    """A partition of all time: from `time_ns[i]` to the next entry the host is in `event[i]`.

    Before the first entry nothing is recorded; the last entry has event -1.

    Attributes:
        time_ns: ascending, distinct.
        event: row in `Events`, or -1.
    """

    time_ns: Ints
    event: Ints

    def at(self, time_ns: Ints) -> Ints:
        """Return the innermost event at each time (at a boundary: of what begins there)."""
        if len(self.time_ns) == 0:
            return np.full(len(time_ns), -1, np.int64)
        index = np.searchsorted(self.time_ns, time_ns, side="right") - 1
        return np.where(index >= 0, self.event[np.maximum(index, 0)], -1)

    def cut(self, start_ns: Ints, end_ns: Ints) -> Pieces:
        """Return the pieces of each interval [start, end); they cover it exactly."""
        keep = np.flatnonzero(end_ns > start_ns)
        start, end = start_ns[keep], end_ns[keep]
        first = np.searchsorted(self.time_ns, start, side="right")
        last = np.searchsorted(self.time_ns, end, side="left")
        count = last - first + 1
        interval = np.repeat(np.arange(len(keep)), count)
        opening = np.cumsum(count) - count
        number = np.arange(len(interval)) - opening[interval]
        boundary = first[interval] + number
        begin = np.where(number == 0, start[interval], self._time(boundary - 1))
        close = np.where(number == count[interval] - 1, end[interval], self._time(boundary))
        event = np.where(boundary > 0, self._event(boundary - 1), -1)
        return Pieces(keep[interval], begin, close, event)

    def _time(self, index: Ints) -> Ints:
        if len(self.time_ns) == 0:
            return np.zeros(len(index), np.int64)
        return self.time_ns[np.clip(index, 0, len(self.time_ns) - 1)]

    def _event(self, index: Ints) -> Ints:
        if len(self.event) == 0:
            return np.full(len(index), -1, np.int64)
        return self.event[np.clip(index, 0, len(self.event) - 1)]

    @classmethod
    def merged(cls, lines: Sequence[HostLine], events: Events) -> HostLine:
        """Return one line for several threads.

        Where none is at work, one with a Python frame or a mark counts, the first of them.
        """
        if len(lines) < 2:
            return lines[0] if lines else cls(np.zeros(0, np.int64), np.zeros(0, np.int64))
        time = distinct(np.concatenate([line.time_ns for line in lines]))
        best = lines[0].at(time)
        score = _score(best, events)
        for line in lines[1:]:
            other = line.at(time)
            better = _score(other, events) > score
            best = np.where(better, other, best)
            score = np.where(better, _score(other, events), score)
        return _joined(time, best)


@dataclass(frozen=True, slots=True)
class HostThreads:
    """The host threads of one rank, laid flat.

    Attributes:
        lanes: the threads that feed the device (launches, waits), busiest first; where no launch
            is recorded, all threads with operators.
        lines: by lane, the thread's line.
        merged: all of `lanes` together.
        parent: for each row of `Events` the host event around it on its thread, else -1.
    """

    lanes: tuple[int, ...]
    lines: dict[int, HostLine]
    merged: HostLine
    parent: Ints

    def nearest(self, rows: Ints, wanted: Bools) -> Ints:
        """Return for each row the nearest event, itself or around it, that is wanted; else -1.

        Args:
            rows: rows of `Events`, -1 for none.
            wanted: for each row of `Events`, whether it would do.
        """
        if not wanted.any():
            return np.full(len(rows), -1, np.int64)
        if len(rows) * FEW < len(wanted):
            return self._climbed(rows, wanted)
        # Every event jumps to the one around it, then twice as far, until all stand where wanted.
        count = len(wanted)
        jump: Ints = np.empty(count + 1, np.int32 if count < 2**31 - 1 else np.int64)
        jump[:count] = self.parent
        jump[jump < 0] = count
        jump[count] = count
        own = np.flatnonzero(wanted)
        jump[own] = own
        going = np.flatnonzero(~wanted)
        while len(going):
            to = jump[going]
            beyond = jump[to]
            jump[going] = beyond
            going = going[beyond != to]
        found = jump[np.where(rows >= 0, rows, count)].astype(np.int64)
        return np.where(found < count, found, -1)

    def _climbed(self, rows: Ints, wanted: Bools) -> Ints:
        """As `nearest`, step by step for a few rows."""
        found = np.array(rows, np.int64)
        open_ = np.flatnonzero(found >= 0)
        open_ = open_[~wanted[found[open_]]]
        while len(open_):
            found[open_] = self.parent[found[open_]]
            open_ = open_[found[open_] >= 0]
            open_ = open_[~wanted[found[open_]]]
        return found


def host_threads(timeline: Timeline, rank: int, parent: Ints | None = None) -> HostThreads:
    """Lay the host threads of a rank flat. Marks of steps are left out: they say nothing.

    Args:
        timeline: any.
        rank: whose threads.
        parent: column for `HostThreads.parent` that several ranks share; filled in place.
    """
    events = timeline.events
    parent = np.full(len(events), -1, np.int64) if parent is None else parent
    lines: dict[int, HostLine] = {}
    weight: dict[int, tuple[int, int]] = {}
    launch = EVENT_KINDS.index("launch")
    hosts = [
        i for i, lane in enumerate(timeline.lanes) if lane.kind == "host" and lane.rank == rank
    ]
    for lane in hosts if len(events) else ():
        rows = np.flatnonzero((events.lane == lane) & (events.kind != _MARKS))
        if len(rows):
            lines[lane] = _flat(events, rows, parent)
            kinds = events.kind[rows]
            active = is_any(kinds, _ACTIVE, len(EVENT_KINDS))
            weight[lane] = int((kinds == launch).sum()), int(active.sum())
    feeding = [lane for lane in lines if weight[lane][0]] or list(lines)
    feeding.sort(key=lambda lane: weight[lane], reverse=True)
    merged = HostLine.merged([lines[lane] for lane in feeding], events)
    return HostThreads(tuple(feeding), lines, merged, parent)


def _flat(events: Events, rows: Ints, parent: Ints) -> HostLine:
    """Lay one thread flat and note who is around whom (events of no length are in no one's way)."""
    start, end = events.start_ns[rows], events.end_ns[rows]
    same = start[1:] == start[:-1]
    if (same & (end[1:] > end[:-1])).any():
        order = np.lexsort((-end, start))
        rows, start, end = rows[order], start[order], end[order]
    inside = _parents(start, end)
    parent[rows] = np.where(inside >= 0, rows[inside], -1)
    time = distinct(np.concatenate((start, end)))
    current = np.searchsorted(start, time, side="right") - 1
    closed = np.flatnonzero((current >= 0) & (end[current] <= time))
    while len(closed):
        current[closed] = inside[current[closed]]
        closed = closed[current[closed] >= 0]
        closed = closed[end[current[closed]] <= time[closed]]
    return _joined(time, np.where(current >= 0, rows[current], -1))


def _parents(start: Ints, end: Ints) -> Ints:
    """Return the index of the event around each one; sorted by start, longest first.

    The depth of an event is how many events before it have not ended; its parent is the last one
    before it that lies one level higher. Level by level, so no loop over events.
    """
    count = len(start)
    by_end = np.sort(end, kind="stable")  # nearly sorted already
    depth = np.arange(count) - np.searchsorted(by_end, start, side="right")
    depth += _empty_before(start, end)
    depth = np.maximum(depth, 0)
    by_depth = np.argsort(
        depth.astype(np.int16) if depth.max(initial=0) < 2**15 else depth, kind="stable"
    )
    first = np.searchsorted(depth[by_depth], np.arange(int(depth.max(initial=0)) + 2))
    inside = np.full(count, -1, np.int64)
    for level in range(1, len(first) - 1):
        own = by_depth[first[level] : first[level + 1]]
        above = by_depth[first[level - 1] : first[level]]
        at = np.searchsorted(above, own) - 1
        inside[own] = np.where(at >= 0, above[np.maximum(at, 0)], -1)
    # Rounded clocks let events overlap a little; what has just begun and is open is around anyway.
    still_open = np.flatnonzero(end[:-1] > start[1:])
    inside[still_open + 1] = still_open
    return inside


def _empty_before(start: Ints, end: Ints) -> Ints:
    """Return, for each event, how many that end by its start come at or after it in the order.

    Only events of no length can: they end where they start.
    """
    empty = np.flatnonzero(end == start)
    if len(empty) == 0:
        return np.zeros(len(start), np.int64)
    upto = np.searchsorted(start[empty], start, side="right")
    before = np.searchsorted(empty, np.arange(len(start)), side="left")
    return np.asarray(np.maximum(upto - before, 0), np.int64)


def _score(event: Ints, events: Events) -> Ints:
    """How much a thread's innermost event counts.

    The start of what is at work; least of all where nothing is recorded, and hardly more for
    Python frames and marks alone.
    """
    if len(events) == 0:
        return np.zeros(len(event), np.int64)
    row, least = np.maximum(event, 0), np.iinfo(np.int64).min
    active = is_any(events.kind[row], _ACTIVE, len(EVENT_KINDS))
    return np.where(event < 0, least, np.where(active, events.start_ns[row], least + 1))


def _joined(time_ns: Ints, event: Ints) -> HostLine:
    """Drop boundaries where nothing changes."""
    changes = np.concatenate((np.ones(min(len(event), 1), bool), event[1:] != event[:-1]))
    return HostLine(time_ns[changes], event[changes])
