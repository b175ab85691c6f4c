"""Why a device was idle: each gap between device work, split by cause from what the host did.

A gap ends when work W starts. What the host did in the gap is read off the threads that feed the
device, moment by moment (see `gpuscope.analysis.host_line`).

1. W was handed over in time (its launch call came at least `launch_latency_ns` before the device
   fell idle): launch gap, up to `LAUNCH_GAP_NS`; what is longer is waiting for another stream
   where the device's last work ran on another lane than W, else unknown.
2. W came too late, so the host was late. Moments in which it loaded input are waiting for data
   (all of the gap where W is the copy that brings the input of a predicted step; where a recording
   knows no loader, moments outside of operators and calls before a long upload); moments in a
   collective of the host itself are waiting for another rank; moments in a synchronisation are
   host synchronising (unknown where they last long beside an idle device: it then waited for
   something that is not recorded). The rest is host dispatching, except for what a wait before
   cost: while the host stood there it could have run ahead by as long as it waited for the busy
   device. So much of the late time that follows is the fault of that wait too.
3. Without a launch to look at (no correlation, no host lanes), or without any device work: waiting
   for data as above, the rest unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.columns import OpColumns, is_any
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.host_activity import UPLOAD, HostActivity
from gpuscope.analysis.waits import LAUNCH_GAP_NS, launched_ns, least_wait_ns
from gpuscope.analysis.window import LAUNCH, MEMCPY, OPERATOR, SYNC, DeviceWork
from gpuscope.timeline.types import EVENT_KINDS, Ints, Timeline

Bools = npt.NDArray[np.bool_]

IDLE_CAUSES: tuple[str, ...] = (
    "host dispatching",
    "host synchronising",
    "launch gap",
    "waiting for data",
    "waiting for another stream",
    "waiting for another rank",
    "unknown",
)
"""Every cause, in the order of the codes of `IdlePieces.cause`."""

DISPATCHING, SYNCHRONISING, LAUNCH_GAP, DATA, STREAM, RANK, UNKNOWN = range(len(IDLE_CAUSES))

SYNC_RETURN_NS = 200_000
"""Longest time in a synchronisation beside an idle device that its return explains (interrupts and
a sleeping thread: 50-100 us). Longer, it waited for something that is not recorded."""

INPUT_COPY_NS = 10_000
"""A host-to-device copy at least this long brings data, not a scalar (~0.5 MB over PCIe 5)."""


@dataclass(frozen=True, slots=True)
class IdlePieces:
    """The idle time of a device in a window, cut into pieces of one cause; equal columns.

    Attributes:
        gap: number of the gap; ascending.
        start_ns, end_ns: the piece; pieces of a gap cover it exactly.
        cause: index into `IDLE_CAUSES`.
        host: row in `Events` of what the host was in, -1 if nothing or not looked at.
        sync: row of the synchronisation at fault, for pieces of that cause and for those in which
            it waited for something unknown; else -1.
        ender: row in `Events` of the device work that ended the gap, -1 at the window's end.
    """

    gap: Ints
    start_ns: Ints
    end_ns: Ints
    cause: Ints
    host: Ints
    sync: Ints
    ender: Ints

    def __len__(self) -> int:
        """Number of pieces."""
        return len(self.gap)

    @property
    def length_ns(self) -> Ints:
        """Nanoseconds of each piece."""
        return self.end_ns - self.start_ns


def idle_causes(
    timeline: Timeline, work: DeviceWork, host: HostActivity, ops: OpColumns
) -> Mapping[str, int]:
    """Return nanoseconds of idle by cause within the work's window; they sum to its idle time."""
    return causes_of(idle_pieces(timeline, work, host, ops))


def causes_of(pieces: IdlePieces) -> Mapping[str, int]:
    """Return the nanoseconds of each cause."""
    # Sums of integers below 2**53 are exact in float64.
    total = np.bincount(pieces.cause, weights=pieces.length_ns, minlength=len(IDLE_CAUSES))
    return {cause: int(total[i]) for i, cause in enumerate(IDLE_CAUSES)}


def idle_pieces(
    timeline: Timeline, work: DeviceWork, host: HostActivity, ops: OpColumns
) -> IdlePieces:
    """Return every moment of the window in which the device was idle, with its cause."""
    window = work.window
    start, end = work.busy.gaps(window.start_ns, window.end_ns)
    none = np.full(len(start), -1, np.int64)
    if len(work) == 0:
        unknown = np.full(len(start), UNKNOWN, np.int64)
        return IdlePieces(np.arange(len(start)), start, end, unknown, none, none, none)
    index, ends = _ender(work, end)
    launched, known = _launched(timeline, work, host, index, ends)
    in_time = known & (launched + launch_latency_ns(timeline, work, host) <= start)
    ready = np.flatnonzero(in_time)
    asked = np.flatnonzero(~in_time)
    late = (known | (~ends & host.known))[asked]
    other_lane = ends & (_lane_before(work, start) != work.lane[index])
    brings = ends & _uploads(timeline, work, ops)[index]
    parts = (
        _of_ready(ready, start, end, other_lane),
        _of_late(timeline, host, asked, start, end, late, brings[asked], work),
    )
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    # By time, which is by gap too; a merge sort gains from the sorted parts.
    order = np.argsort(columns[1], kind="stable")
    gap, begin, close, cause, event, sync = (column[order] for column in columns)
    ender = np.where(ends, work.event[index], -1)[gap]
    return IdlePieces(gap, begin, close, cause, event, sync, ender)


_Columns = tuple[Ints, Ints, Ints, Ints, Ints, Ints]
"""gap, start, end, cause, host, sync"""


def _of_ready(rows: Ints, start: Ints, end: Ints, other_lane: Bools) -> _Columns:
    """Gaps before work that was handed over in time: the launch gap, then what is beyond it."""
    middle = np.minimum(start[rows] + LAUNCH_GAP_NS, end[rows])
    beyond = middle < end[rows]
    gap = np.concatenate((rows, rows[beyond]))
    after = np.where(other_lane[rows], STREAM, UNKNOWN)[beyond]
    cause = np.concatenate((np.full(len(rows), LAUNCH_GAP, np.int64), after))
    begin = np.concatenate((start[rows], middle[beyond]))
    close = np.concatenate((middle, end[rows][beyond]))
    none = np.full(len(gap), -1, np.int64)
    return gap, begin, close, cause, none, none


def _of_late(
    timeline: Timeline,
    host: HostActivity,
    rows: Ints,
    start: Ints,
    end: Ints,
    late: Bools,
    brings: Bools,
    work: DeviceWork,
) -> _Columns:
    """Gaps that the host caused, or whose launch is unknown: by what the host did in them."""
    threads = host.threads
    pieces = threads.merged.cut(start[rows], end[rows])
    own, begin, close, event = pieces.interval, pieces.start_ns, pieces.end_ns, pieces.event
    sync = threads.nearest(event, host.is_sync)
    cause = np.where(sync >= 0, SYNCHRONISING, DISPATCHING)
    silent = (sync >= 0) & (close - begin > SYNC_RETURN_NS)
    cause = np.where(silent, UNKNOWN, cause)
    cause = np.where(threads.nearest(event, host.is_collective) >= 0, RANK, cause)
    cause = np.where(late[own], cause, UNKNOWN)
    loading = brings[own]
    if timeline.origin == "measured":
        # Without a loader in the recording: Python before an upload prepares what it brings.
        at_work = is_any(timeline.events.kind, (OPERATOR, LAUNCH, SYNC), len(EVENT_KINDS))
        loading = loading & (threads.nearest(event, at_work) < 0) & (not host.knows_loader)
    loading = loading | (threads.nearest(event, host.is_loader) >= 0)
    cause = np.where(loading, DATA, cause)
    sync = np.where((cause == SYNCHRONISING) | (silent & (cause == UNKNOWN)), sync, -1)
    gap = rows[own]
    owed, at_fault = _owed(host, work, begin, close, cause)
    middle = begin + owed
    whole, part = owed >= close - begin, (owed > 0) & (owed < close - begin)
    cause = np.where(whole & (owed > 0), SYNCHRONISING, cause)
    sync = np.where(whole & (owed > 0), at_fault, sync)
    # A piece that is at fault only at its beginning becomes two.
    return (
        np.concatenate((gap, gap[part])),
        np.concatenate((np.where(part, middle, begin), begin[part])),
        np.concatenate((close, middle[part])),
        np.concatenate((cause, np.full(int(part.sum()), SYNCHRONISING, np.int64))),
        np.concatenate((event, event[part])),
        np.concatenate((sync, at_fault[part])),
    )


def _owed(
    host: HostActivity, work: DeviceWork, begin: Ints, close: Ints, cause: Ints
) -> tuple[Ints, Ints]:
    """How much of each dispatching piece the wait before it is at fault for, and its row.

    A wait is at fault for as long as it stood before a busy device, spent on the late pieces after
    it in their order; a shorter wait that follows does not clear what is left of a longer one.
    """
    waits = host.waits
    none = np.zeros(len(begin), np.int64)
    if len(waits) == 0 or len(begin) == 0:
        return none, none - 1
    by_done = np.argsort(waits.done_ns, kind="stable")
    before = np.searchsorted(waits.done_ns[by_done], begin, side="right") - 1
    gap_start, gap_end = work.busy.gaps(work.window.start_ns, work.window.end_ns)
    idle = Cover.of(gap_start, gap_end)
    stood = waits.done_ns - waits.start_ns
    lost = np.maximum(stood - idle.within(waits.start_ns, waits.done_ns), 0)[by_done]
    dispatching = (cause == DISPATCHING) & (before >= 0)
    length = np.where(dispatching, close - begin, 0)
    order = np.argsort(begin, kind="stable")
    spent = np.concatenate(([0], np.cumsum(length[order])))
    group = before[order]
    opening = spent[np.searchsorted(group, np.arange(len(waits)))]
    debt, late = lost.tolist(), np.diff(opening, append=spent[-1]).tolist()
    for wait in range(1, len(debt)):
        debt[wait] = max(debt[wait], debt[wait - 1] - late[wait - 1])
    left = np.where(group >= 0, np.array(debt)[group] - (spent[:-1] - opening[group]), 0)
    owed = none.copy()
    owed[order] = np.clip(left, 0, length[order])
    return owed, np.where(before >= 0, waits.event[by_done[before]], -1)


def launch_latency_ns(timeline: Timeline, work: DeviceWork, host: HostActivity) -> int:
    """Return the shortest time from a launch call to its work in this window, 0 if none is known.

    See `gpuscope.analysis.waits.least_wait_ns`.
    """
    everything = np.arange(len(work))
    launched, known = _launched(timeline, work, host, everything, everything >= 0)
    return least_wait_ns((work.start_ns - launched)[known])


def _launched(
    timeline: Timeline, work: DeviceWork, host: HostActivity, index: Ints, wanted: Bools
) -> tuple[Ints, Bools]:
    """When each of these rows of the work was handed to the device, and whether that is known."""
    event = work.event[index]
    launch = np.where(wanted, host.launch[event], -1)
    known = launch >= 0
    time = np.zeros(len(index), np.int64)
    time[known] = launched_ns(timeline.events, event[known], launch[known])
    return time, known


def _ender(work: DeviceWork, end: Ints) -> tuple[Ints, Bools]:
    """Return the row of the event that ends each gap, and whether there is one."""
    at = np.searchsorted(work.start_ns, end, side="left")
    inside = np.minimum(at, len(work) - 1)
    return inside, (at < len(work)) & (work.start_ns[inside] == end)


def _lane_before(work: DeviceWork, start: Ints) -> Ints:
    """Return the lane of the work that ended when each gap began; -1 at the window's start."""
    order = np.argsort(work.end_ns, kind="stable")
    at = np.searchsorted(work.end_ns[order], start, side="right") - 1
    return np.where(at >= 0, work.lane[order[np.maximum(at, 0)]], -1)


def _uploads(timeline: Timeline, work: DeviceWork, ops: OpColumns) -> Bools:
    """Return which device events bring input.

    Copies of the input phase of a predicted step; else long uploads.
    """
    copies = np.asarray(work.kind == MEMCPY, np.bool_)
    if timeline.origin == "predicted":
        is_input = np.array([phase == "input" for phase in ops.phase.table])
        copies_input: Bools = copies & is_input[ops.phase.take(work.op)]
        if copies_input.any():
            return copies_input
    upload = np.fromiter(
        (bool(UPLOAD.search(name)) for name in timeline.names), bool, len(timeline.names)
    )
    lane = np.fromiter(
        (bool(UPLOAD.search(lane.name)) for lane in timeline.lanes), bool, len(timeline.lanes)
    )
    long = work.end_ns - work.start_ns >= INPUT_COPY_NS
    return np.asarray(copies & long & (upload[work.name] | lane[work.lane]))
