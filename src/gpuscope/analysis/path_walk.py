"""The walk along a critical path, from the end of a window back to its begin."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gpuscope.analysis.host_activity import HostActivity
from gpuscope.analysis.path_links import (
    LAUNCHED,
    NOTHING,
    QUEUE,
    STREAM,
    Breaks,
    DeviceLinks,
    device_links,
    thread_breaks,
)
from gpuscope.analysis.window import Window
from gpuscope.timeline.types import Ints, Timeline

WORK, GAP, LATENCY, HOST, RETURN, HAND_OVER, NONE = range(7)
"""Codes of raw segments: device work, the gap after the work before it, from a launch to its work,
a host thread, the return of a wait, from one thread to the next, nothing known."""

_IDLE_HOPS = 100
"""Hops without progress in time after which the walk gives up; clocks that contradict each other
could send it round in circles."""


@dataclass(slots=True)
class Raw:
    """Raw segments of a path in the order of the walk (backwards); equal columns.

    `ref` is the row of the event (`WORK`, `GAP`, `LATENCY`, `RETURN`) or the host lane
    (`HOST`, `HAND_OVER`), -1 for `NONE`.
    """

    start_ns: list[int] = field(default_factory=list)
    end_ns: list[int] = field(default_factory=list)
    code: list[int] = field(default_factory=list)
    ref: list[int] = field(default_factory=list)

    def columns(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Start, end, code and ref in time order."""
        start, end, code, ref = (
            np.array(column[::-1], np.int64)
            for column in (self.start_ns, self.end_ns, self.code, self.ref)
        )
        return start, end, code, ref


class _Rank:
    """Links and breaks of one rank as plain lists: the walk reads single entries."""

    def __init__(self, timeline: Timeline, rank: int, host: HostActivity) -> None:
        links: DeviceLinks = device_links(timeline, rank, host.launch)
        self.rows = links.row
        self.row: list[int] = links.row.tolist()
        self.start: list[int] = links.start_ns.tolist()
        self.end: list[int] = links.end_ns.tolist()
        self.link: list[int] = links.link.tolist()
        self.before: list[int] = links.before.tolist()
        self.given: list[int] = links.given_ns.tolist()
        lanes = timeline.events.lane[np.maximum(links.call, 0)] if len(links.call) else links.call
        self.thread: list[int] = np.where(links.call >= 0, lanes, -1).tolist()
        self.host = host
        breaks = thread_breaks(timeline.events, host.threads, host.waits, host.is_loader)
        self.breaks = {lane: _Lists(found) for lane, found in breaks.items()}

    def index(self, row: int) -> int:
        """Index of the device work in this row of `Events`."""
        return int(np.searchsorted(self.rows, row))


class _Lists:
    """`Breaks` as plain lists."""

    def __init__(self, breaks: Breaks) -> None:
        self.time: list[int] = breaks.time_ns.tolist()
        self.done: list[int] = breaks.done_ns.tolist()
        self.work: list[int] = breaks.work.tolist()
        self.lane: list[int] = breaks.lane.tolist()
        self.event: list[int] = breaks.event.tolist()


class Walker:
    """Walks back from a window's end.

    Args:
        timeline: all ranks.
        host_of: what the host of a rank did.
        last: for each row of `Events` the row of the call of the rank that came last to the same
            collective, -1 where there is none; None if no ranks were matched.
    """

    def __init__(
        self, timeline: Timeline, host_of: Callable[[int], HostActivity], last: Ints | None
    ) -> None:
        self.timeline, self.host_of, self.last = timeline, host_of, last
        self.ranks: dict[int, _Rank] = {}
        self.raw = Raw()

    def walk(self, rank: int, window: Window) -> Raw:
        """Return the path of a window on one rank; its segments cover the window exactly."""
        self.low = window.start_ns
        here, work, lane, time = self._begin(self._rank(rank), window.end_ns)
        idle = 0
        while time > self.low:
            before = time
            if work >= 0:
                here, work, lane, time = self._device(here, work, time)
            else:
                work, lane, time = self._thread(here, lane, time)
            idle = 0 if time < before else idle + 1
            if idle > _IDLE_HOPS:
                time = self._add(NONE, self.low, time, -1)
        return self.raw

    def _rank(self, number: int) -> _Rank:
        if number not in self.ranks:
            self.ranks[number] = _Rank(self.timeline, number, self.host_of(number))
        return self.ranks[number]

    def _add(self, code: int, start: int, end: int, ref: int) -> int:
        """Add a segment, cut at the window's begin; returns where it begins."""
        start = min(max(start, self.low), end)
        if start < end:
            raw = self.raw
            raw.start_ns.append(start)
            raw.end_ns.append(end)
            raw.code.append(code)
            raw.ref.append(ref)
        return start

    def _begin(self, here: _Rank, end: int) -> tuple[_Rank, int, int, int]:
        """Where the walk begins: the device if it is at work at the end, else the host."""
        started = bisect_right(here.start, end - 1)
        lasting = max(range(started), key=here.end.__getitem__, default=-1)
        if lasting >= 0 and here.end[lasting] >= end:
            return here, lasting, -1, end
        if started < len(here.start) and here.link[started] in (QUEUE, STREAM):
            before = here.before[started]
            if here.end[before] < end:
                return here, before, -1, self._add(GAP, here.end[before], end, here.row[started])
        lane = self._thread_at(here, started, end)
        if lane >= 0:
            return here, -1, lane, end
        if lasting < 0:
            return here, -1, -1, self._add(NONE, self.low, end, -1)
        return here, lasting, -1, self._add(NONE, here.end[lasting], end, -1)

    def _thread_at(self, here: _Rank, following: int, time: int) -> int:
        """The host thread that was at work at a time, -1 where no host is recorded."""
        if following < len(here.start) and here.thread[following] >= 0:
            return here.thread[following]
        threads = here.host.threads
        event = int(threads.merged.at(np.array([time - 1]))[0])
        lane = int(self.timeline.events.lane[event]) if event >= 0 else -1
        return lane if lane >= 0 else (threads.lanes[0] if threads.lanes else -1)

    def _device(self, here: _Rank, work: int, time: int) -> tuple[_Rank, int, int, int]:
        """From a moment in device work to what held it back."""
        row, start = here.row[work], here.start[work]
        latest = int(self.last[row]) if self.last is not None else -1
        if latest >= 0 and latest != row:
            events = self.timeline.events
            came = int(events.start_ns[latest])
            if start < came < time:
                time = self._add(WORK, came, time, row)
                there = self._rank(self.timeline.lanes[int(events.lane[latest])].rank)
                return there, there.index(latest), -1, time
        time = self._add(WORK, min(start, time), time, row)
        link = here.link[work]
        if link == NOTHING:
            return here, work, -1, self._add(NONE, self.low, time, -1)
        if link == LAUNCHED:
            time = self._add(LATENCY, min(here.given[work], time), time, row)
            return here, -1, here.thread[work], time
        before = here.before[work]
        time = self._add(GAP, min(here.end[before], time), time, row)
        return here, before, -1, time

    def _thread(self, here: _Rank, lane: int, time: int) -> tuple[int, int, int]:
        """From a moment of a host thread to the device or the thread that it waited for."""
        breaks = here.breaks.get(lane)
        at = bisect_right(breaks.time, time) - 1 if breaks is not None else -1
        if breaks is None or at < 0:
            return -1, lane, self._add(HOST, self.low, time, lane)
        time = self._add(HOST, breaks.time[at], time, lane)
        if breaks.work[at] >= 0:
            time = self._add(RETURN, breaks.done[at], time, breaks.event[at])
            return here.index(breaks.work[at]), -1, time
        time = self._add(HAND_OVER, breaks.done[at], time, breaks.lane[at])
        return -1, breaks.lane[at], time
