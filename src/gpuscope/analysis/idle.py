"""Why a device was idle: each gap between device work, split by cause from what the host did.

For a gap that ends when work W starts, the causes are tried in this order:

1. waiting for data: host time inside the gap spent loading input (an operator of the input phase,
   or a data loader's `__next__`); all of the gap when W is the copy that brings the input;
2. W's launch call came too late for W to start when the device fell idle (a call needs
   `launch_latency_ns` to reach the device), so the host was late:
   host synchronising if the host stood in a synchronisation when the device fell idle (it lost
   its lead there), or for the part of the gap that it spent in one; else host dispatching;
3. W was launched in time: launch gap, up to `LAUNCH_GAP_NS`; what is longer is waiting for another
   stream where the device's last work ran on another lane than W, else unknown.

Without a launch to look at (no correlation, no host lanes), or without any device work, the rest
is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.columns import OpColumns
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.window import LAUNCH, MEMCPY, SYNC, DeviceWork, rank_rows
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS, Ints, Timeline

IDLE_CAUSES: tuple[str, ...] = (
    "host dispatching", "host synchronising", "launch gap", "waiting for data",
    "waiting for another stream", "unknown",
)  # fmt: skip
"""Every cause, in the order of the columns that `idle_causes` returns."""

LAUNCH_GAP_NS = 10_000
"""Longest gap that the launch itself explains. On an H200 a kernel starts 2-5 us after its launch
call and queued kernels follow each other within 1-2 us; 10 us leaves room for slower machines."""

INPUT_COPY_NS = 10_000
"""A host-to-device copy at least this long brings data, not a scalar (~0.5 MB over PCIe 5)."""

_LOADER = re.compile(r"dataloader.*(__next__|_next_data)", re.IGNORECASE)
_UPLOAD = re.compile(r"HtoD|Host ?-> ?Device|copy_h2d|h2d", re.IGNORECASE)

_WORKING = tuple(EVENT_KINDS.index(kind) for kind in ("operator", "launch", "python"))


@dataclass(frozen=True, slots=True)
class HostActivity:
    """What the host threads of one rank did, as far as it explains an idle device.

    Attributes:
        known: the timeline has host events for this rank.
        syncing: waits for the device.
        loading: preparing input.
        working: operators, launches and Python, waits excluded when measured by `work_ns`.
        launch_correlation, launch_start_ns: launch calls, sorted by correlation.
    """

    known: bool
    syncing: Cover
    loading: Cover
    working: Cover
    launch_correlation: Ints
    launch_start_ns: Ints

    def work_ns(self, start_ns: int, end_ns: int) -> int:
        """Return the nanoseconds in [start, end) in which the host worked and did not wait."""
        bounds = np.array([start_ns]), np.array([end_ns])
        both = Cover.of(
            np.concatenate((self.working.start_ns, self.syncing.start_ns)),
            np.concatenate((self.working.end_ns, self.syncing.end_ns)),
        )
        return int((both.within(*bounds) - self.syncing.within(*bounds))[0])

    def launch_of(self, correlation: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return when each device event was launched, and whether that is known."""
        if len(self.launch_correlation) == 0:
            return np.zeros(len(correlation), np.int64), np.zeros(len(correlation), bool)
        at = np.searchsorted(self.launch_correlation, correlation)
        at = np.minimum(at, len(self.launch_correlation) - 1)
        found = (self.launch_correlation[at] == correlation) & (correlation >= 0)
        return self.launch_start_ns[at], found


def host_activity(timeline: Timeline, rank: int, ops: OpColumns) -> HostActivity:
    """Return what the host of a rank did."""
    events = timeline.events
    host = rank_rows(timeline, rank) & (events.kind >= DEVICE_KINDS)
    host &= ~np.isin(events.kind, (EVENT_KINDS.index("step"), EVENT_KINDS.index("module")))
    loader = np.fromiter(
        (bool(_LOADER.search(name)) for name in timeline.names), bool, len(timeline.names)
    )
    is_input = np.array([phase == "input" for phase in ops.phase.table])[ops.phase.take(events.op)]
    loading = host & is_input
    if len(timeline.names):
        loading |= host & loader[events.name]
    launch = host & (events.kind == LAUNCH) & (events.correlation >= 0)
    order = np.argsort(events.correlation[launch], kind="stable")

    def cover(rows: npt.NDArray[np.bool_]) -> Cover:
        return Cover.of(events.start_ns[rows], events.end_ns[rows])

    return HostActivity(
        known=bool(host.any()),
        syncing=cover(host & (events.kind == SYNC)),
        loading=cover(loading & (events.kind != SYNC)),
        working=cover(host & np.isin(events.kind, _WORKING)),
        launch_correlation=events.correlation[launch][order],
        launch_start_ns=events.start_ns[launch][order],
    )


def idle_causes(
    timeline: Timeline, work: DeviceWork, host: HostActivity, ops: OpColumns
) -> Mapping[str, int]:
    """Return nanoseconds of idle by cause within the work's window; they sum to its idle time."""
    window = work.window
    if len(work) == 0:
        return {cause: window.length_ns * (cause == "unknown") for cause in IDLE_CAUSES}
    start, end = work.busy.gaps(window.start_ns, window.end_ns)
    split = _split(timeline, work, host, ops, start, end)
    return {cause: int(split[:, i].sum()) for i, cause in enumerate(IDLE_CAUSES)}


def _split(
    timeline: Timeline,
    work: DeviceWork,
    host: HostActivity,
    ops: OpColumns,
    start: Ints,
    end: Ints,
) -> Ints:
    """Return gaps x causes in nanoseconds; each row sums to the gap's length."""
    length = end - start
    split = np.zeros((len(start), len(IDLE_CAUSES)), np.int64)
    dispatching, synchronising, launch_gap, data, stream, unknown = range(len(IDLE_CAUSES))
    ender, ends = _ender(work, end)
    launched, known = host.launch_of(np.where(ends, work.correlation[ender], -1))
    trailing = ~ends & host.known
    in_time = launched + launch_latency_ns(work, host) <= start
    late = (known & ~in_time) | trailing
    ready = known & in_time

    loading = np.where(
        ends & _uploads(timeline, work, ops)[ender], length, host.loading.within(start, end)
    )
    split[:, data] = np.where(ready, 0, loading)
    rest = length - split[:, data]

    waiting = np.where(host.syncing.holds(start), rest, host.syncing.within(start, end))
    split[:, synchronising] = np.where(late, np.minimum(waiting, rest), 0)
    split[:, dispatching] = np.where(late, rest - split[:, synchronising], 0)

    split[:, launch_gap] = np.where(ready, np.minimum(rest, LAUNCH_GAP_NS), 0)
    rest = rest - split.sum(axis=1) + split[:, data]
    other_lane = ends & (_lane_before(work, start) != work.lane[ender])
    split[:, stream] = np.where(ready & other_lane, rest, 0)
    split[:, unknown] = rest - split[:, stream]
    return split


def launch_latency_ns(work: DeviceWork, host: HostActivity) -> int:
    """Return the shortest time from a launch call to its work in this window.

    The first percentile, so that a few events on skewed clocks do not matter, between 0 and
    `LAUNCH_GAP_NS`: where a queue is always full, even the shortest wait is in the queue. 0 where
    no launch is known.
    """
    launched, known = host.launch_of(work.correlation)
    if not known.any():
        return 0
    shortest = int(np.percentile((work.start_ns - launched)[known], 1))
    return min(max(0, shortest), LAUNCH_GAP_NS)


def _ender(work: DeviceWork, end: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the row of the event that ends each gap, and whether there is one."""
    at = np.searchsorted(work.start_ns, end, side="left")
    inside = np.minimum(at, len(work) - 1)
    return inside, (at < len(work)) & (work.start_ns[inside] == end)


def _lane_before(work: DeviceWork, start: Ints) -> Ints:
    """Return the lane of the work that ended when each gap began; -1 at the window's start."""
    order = np.argsort(work.end_ns, kind="stable")
    at = np.searchsorted(work.end_ns[order], start, side="right") - 1
    return np.where(at >= 0, work.lane[order[np.maximum(at, 0)]], -1)


def _uploads(timeline: Timeline, work: DeviceWork, ops: OpColumns) -> npt.NDArray[np.bool_]:
    """Return which device events bring input: copies of the input phase, or long uploads."""
    upload = np.fromiter(
        (bool(_UPLOAD.search(name)) for name in timeline.names), bool, len(timeline.names)
    )
    lane = np.fromiter(
        (bool(_UPLOAD.search(lane.name)) for lane in timeline.lanes), bool, len(timeline.lanes)
    )
    is_input = np.array([phase == "input" for phase in ops.phase.table])[ops.phase.take(work.op)]
    long = work.end_ns - work.start_ns >= INPUT_COPY_NS
    named = upload[work.name] | lane[work.lane]
    return np.asarray((work.kind == MEMCPY) & (is_input | (long & named & (work.op < 0))), np.bool_)
