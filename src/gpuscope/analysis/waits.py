"""Which host call launched which device work, and which calls made the host wait for the device.

A wait is found from times, not from a call's name alone, since the same call waits in one place
and not in another:

- a synchronisation during which device work ended that was launched before it returned;
- a copy call that returns after its own copy has ended (pageable memory, blocking copies);
- a launch call that takes long while about as many launches are queued as the device takes: it
  returns once work has left the queue;
- a call that frees device memory (it synchronises the device) while device work ended in it and
  nothing went on past it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.columns import distinct
from gpuscope.analysis.window import LAUNCH, MEMCPY, SYNC, rank_rows
from gpuscope.timeline.types import DEVICE_KINDS, Events, Ints, Timeline

Bools = npt.NDArray[np.bool_]

LONG_CALL_NS = 10_000
"""A launch call that takes longer does more than to queue its work: it stages a pageable copy,
loads the kernel's code or uploads a graph. Plain launch calls take 2-8 us."""

LAUNCH_GAP_NS = 10_000
"""Longest gap that the launch itself explains. On an H200 a kernel starts 2-5 us after its launch
call and queued kernels follow each other within 1-2 us; 10 us leaves room for slower machines."""

FULL_QUEUE = 500
"""Launches handed over and not begun from which on a long launch call is taken to wait for room.
CUDA's limit is not documented; recordings show up to 1017-1024 in all."""

_NO_WAIT = re.compile(r"(stream ?wait ?(event|value)|query)", re.IGNORECASE)
_FREES = re.compile(r"^(cuda|hip|cu|mu|acl)(Free|HostFree|FreeHost|MemFree)(_v2)?$")


@dataclass(frozen=True, slots=True)
class Waits:
    """Host calls of one rank that waited for the device, by end; equal columns.

    Attributes:
        event: row in `Events` of the call.
        target: row in `Events` of the device work that it waited for.
        start_ns, end_ns: the call.
        done_ns: end of the device work; start_ns < done_ns <= end_ns.
    """

    event: Ints
    target: Ints
    start_ns: Ints
    end_ns: Ints
    done_ns: Ints

    def __len__(self) -> int:
        """Number of waits."""
        return len(self.event)


def launch_rows(timeline: Timeline) -> Ints:
    """Return for each event the row of the host call that launched it; -1 if none is known.

    As recorded, else by correlation within its rank. Several device events may share a call (a
    graph launch).
    """
    events = timeline.events
    rows = np.full(len(events), -1, np.int64)
    if timeline.recorded is not None:
        rows[timeline.recorded.event] = timeline.recorded.launch
    rank = np.fromiter((lane.rank for lane in timeline.lanes), np.int64, len(timeline.lanes))
    linked = events.correlation >= 0
    missing = np.flatnonzero((events.kind < DEVICE_KINDS) & (rows < 0) & linked)
    calls = np.flatnonzero((events.kind == LAUNCH) & linked)
    if len(missing) == 0 or len(calls) == 0:
        return rows
    call_rank, own_rank = rank[events.lane[calls]], rank[events.lane[missing]]
    for number in distinct(own_rank).tolist():
        of_rank = calls[call_rank == number]
        wanted = missing[own_rank == number]
        rows[wanted] = _matched(events, of_rank, wanted)
    return rows


def least_wait_ns(waited_ns: Ints) -> int:
    """Return the shortest of the times from launch calls to their work; 0 where there are none.

    The first percentile, so that a few events on skewed clocks do not matter, between 0 and
    `LAUNCH_GAP_NS`: where a queue is always full, even the shortest wait is in the queue.
    """
    shortest = int(np.percentile(waited_ns, 1)) if len(waited_ns) else 0
    return min(max(0, shortest), LAUNCH_GAP_NS)


def _matched(events: Events, calls: Ints, wanted: Ints) -> Ints:
    if len(calls) == 0:
        return np.full(len(wanted), -1, np.int64)
    order = calls[np.argsort(events.correlation[calls], kind="stable")]
    keys = events.correlation[order]
    at = np.minimum(np.searchsorted(keys, events.correlation[wanted]), len(keys) - 1)
    return np.where(keys[at] == events.correlation[wanted], order[at], -1)


def launched_ns(events: Events, work: Ints, launch: Ints) -> Ints:
    """Return when each device event was handed to the device.

    The start of its launch call; where that call is long, its end (or the work's own start), since
    a long call first does other things.

    Args:
        events: the timeline's.
        work: rows of device events.
        launch: rows of their launch calls, all known.
    """
    start, end = events.start_ns[launch], events.end_ns[launch]
    late = np.maximum(np.minimum(end, events.start_ns[work]), start)
    return np.where(end - start > LONG_CALL_NS, late, start)


def find_waits(timeline: Timeline, rank: int, launch: Ints) -> Waits:
    """Return the calls of a rank's host threads that waited for the device.

    Args:
        timeline: any.
        rank: whose.
        launch: as `launch_rows` returns it.
    """
    events = timeline.events
    own = rank_rows(timeline, rank)
    work = np.flatnonzero(own & (events.kind < DEVICE_KINDS))
    host = np.fromiter((lane.kind == "host" for lane in timeline.lanes), bool, len(timeline.lanes))
    calls = np.flatnonzero(own & (events.kind >= DEVICE_KINDS))
    calls = calls[host[events.lane[calls]]]
    if len(work) == 0 or len(calls) == 0:
        none = np.zeros(0, np.int64)
        return Waits(none, none, none, none, none)
    order = work[np.argsort(events.end_ns[work], kind="stable")]
    found = (
        _synchronisations(timeline, order, launch, calls),
        _blocking_copies(events, work, launch),
        _frees(timeline, order, launch, calls),
        _full_queues(events, order, launch),
    )
    event = np.concatenate([rows for rows, _ in found])
    target = np.concatenate([rows for _, rows in found])
    by_end = np.argsort(events.end_ns[event], kind="stable")
    event, target = event[by_end], target[by_end]
    start, end = events.start_ns[event], events.end_ns[event]
    return Waits(event, target, start, end, events.end_ns[target])


def synchronises(timeline: Timeline) -> Bools:
    """Return which events are synchronisations on a host thread."""
    events = timeline.events
    host = np.fromiter((lane.kind == "host" for lane in timeline.lanes), bool, len(timeline.lanes))
    if len(events) == 0:
        return np.zeros(0, bool)
    return np.asarray(
        (events.kind == SYNC) & host[events.lane] & ~_named(timeline, _NO_WAIT)[events.name]
    )


def _synchronisations(
    timeline: Timeline, by_end: Ints, launch: Ints, calls: Ints
) -> tuple[Ints, Ints]:
    """Synchronisations with the last work that ended in them."""
    events = timeline.events
    rows = calls[(events.kind[calls] == SYNC) & ~_named(timeline, _NO_WAIT)[events.name[calls]]]
    at = np.searchsorted(events.end_ns[by_end], events.end_ns[rows], side="right") - 1
    target = by_end[np.maximum(at, 0)]
    launched = launch[target]
    before = (launched < 0) | (events.start_ns[launched] < events.end_ns[rows])
    keep = (at >= 0) & (events.end_ns[target] > events.start_ns[rows]) & before
    return rows[keep], target[keep]


def _blocking_copies(events: Events, work: Ints, launch: Ints) -> tuple[Ints, Ints]:
    """Copy calls that returned after their own copy."""
    copies = work[(events.kind[work] == MEMCPY) & (launch[work] >= 0)]
    call = launch[copies]
    start, end, done = events.start_ns[call], events.end_ns[call], events.end_ns[copies]
    keep = (end - start > LONG_CALL_NS) & (done <= end) & (done > start)
    keep &= events.kind[call] == LAUNCH
    return call[keep], copies[keep]


def _frees(timeline: Timeline, by_end: Ints, launch: Ints, calls: Ints) -> tuple[Ints, Ints]:
    """Calls that free device memory, with the last work that ended in them and nothing after."""
    events = timeline.events
    rows = calls[_named(timeline, _FREES)[events.name[calls]]]
    rows = rows[events.duration_ns[rows] > LONG_CALL_NS]
    end = events.end_ns[rows]
    at = np.searchsorted(events.end_ns[by_end], end, side="right") - 1
    target = by_end[np.maximum(at, 0)]
    starts = np.sort(events.start_ns[by_end], kind="stable")
    running = np.searchsorted(starts, end, side="left") > at + 1
    keep = (at >= 0) & (events.end_ns[target] > events.start_ns[rows]) & ~running
    launched = launch[target]
    keep &= (launched >= 0) & (events.start_ns[launched] < events.start_ns[rows])
    return rows[keep], target[keep]


def _full_queues(events: Events, by_end: Ints, launch: Ints) -> tuple[Ints, Ints]:
    """Long launch calls into a full queue, with the last work that ended in them."""
    linked = by_end[launch[by_end] >= 0]
    calls = distinct(launch[linked])
    begun = np.full(len(events), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(begun, launch[linked], events.start_ns[linked])
    rows = calls[(events.duration_ns[calls] > LONG_CALL_NS) & (events.kind[calls] == LAUNCH)]
    given = np.sort(events.start_ns[calls], kind="stable")
    leaving = np.sort(begun[calls], kind="stable")
    start, end = events.start_ns[rows], events.end_ns[rows]
    queued = np.searchsorted(given, start) - np.searchsorted(leaving, start, side="right")
    rows, end = rows[queued >= FULL_QUEUE], end[queued >= FULL_QUEUE]
    at = np.searchsorted(events.end_ns[by_end], end, side="right") - 1
    target = by_end[np.maximum(at, 0)]
    keep = (at >= 0) & (events.end_ns[target] > events.start_ns[rows]) & (launch[target] != rows)
    return rows[keep], target[keep]


def _named(timeline: Timeline, pattern: re.Pattern[str]) -> Bools:
    return np.fromiter(
        (bool(pattern.search(name)) for name in timeline.names), bool, len(timeline.names)
    )
