"""How work gets to the device: launch calls, how long they take, how far the host runs ahead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.columns import distinct, present
from gpuscope.analysis.waits import launch_rows, launched_ns
from gpuscope.analysis.window import (
    COMMUNICATION,
    KERNEL,
    LAUNCH,
    DeviceWork,
    Window,
    choose_window,
    device_work,
    host_window,
    rank_rows,
)
from gpuscope.cost.types import Kernel
from gpuscope.timeline.types import DEVICE_KINDS, Events, Ints, Timeline

Bools = npt.NDArray[np.bool_]

QUEUE_HOLDS = 1000
"""Launches that a queue holds before its calls block: CUDA's driver takes about 1,024 a channel."""

BLOCKED = 10.0
"""A call that takes this many times the median while the queue is full waits for room in it."""

CURVE_POINTS = 200
"""Points of `Launches.queue_time_s`."""


@dataclass(frozen=True, slots=True)
class ThreadLaunches:
    """Launch calls of one host thread: its name, calls a step, seconds in them a step."""

    thread: str
    count: int
    time_s: float


@dataclass(frozen=True, slots=True)
class Launches:
    """Launches of one rank in the analysed steps.

    A launch is one call on the host; a graph launch brings many kernels. Its *latency* is from the
    begin of the call to the begin of its first work on the device. It finds the *queue empty* where
    all earlier launches on the same stream had ended before its call began to matter, that is when
    its work was handed over: the device then waited for the host.

    Attributes:
        count: launch calls a step.
        rate_per_s: launch calls a second of the window.
        kernels: kernels (communication included) a step.
        unlinked: device events a step whose launch is not known.
        call_median_s: median length of a launch call; None without calls.
        call_total_s: seconds a step in launch calls.
        call_full_s: seconds of these in calls that found no room in the driver's queue and lasted
            until there was some.
        latency_median_s: median from call to work; None where no pair is known.
        latency_empty_median_s: the same where the queue was empty and nothing ran on other streams
            either, whose work it may have to wait for: the device's own answer time.
        empty_share: share of launches that found their stream's queue empty; None if unknown.
        short_kernels: kernels a step that are shorter than their own launch call.
        short_share: the same as a share of kernels with a known single launch; None if unknown.
        queue_mean, queue_max: launches handed over and not yet begun, over time; None if unknown.
        queue_time_s, queue_depth: deepest queue in each of up to 200 equal parts of the window;
            time from its begin.
        graph_launches: graph launches a step.
        kernels_per_graph: mean device events of a graph launch; None without.
        threads: by host thread, most launches first.
    """

    count: int
    rate_per_s: float
    kernels: int
    unlinked: int
    call_median_s: float | None
    call_total_s: float
    latency_median_s: float | None
    latency_empty_median_s: float | None
    empty_share: float | None
    short_kernels: int
    short_share: float | None
    queue_mean: float | None
    queue_max: int | None
    queue_time_s: tuple[float, ...]
    queue_depth: tuple[int, ...]
    graph_launches: int
    kernels_per_graph: float | None
    threads: tuple[ThreadLaunches, ...]
    call_full_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DelayedLaunch:
    """One late launch.

    Attributes:
        kernel: the symbol of its first work.
        call: the host's call.
        delay_s: from the begin of the call to the begin of the work.
        call_s: of that, in the call itself.
        at_s: when the call began, from the window's begin.
    """

    kernel: str
    call: str
    delay_s: float
    call_s: float
    at_s: float


@dataclass(frozen=True, slots=True)
class LaunchDelays:
    """Launches of one rank that found the device free and were late nevertheless.

    Attributes:
        count: late launches in the window.
        of: launches in the window that found the device free.
        typical_s: their median delay.
        lost_s: what the late ones took beyond it, a step: the device had nothing to do meanwhile.
        rows: the latest first, ten at most.
    """

    count: int
    of: int
    typical_s: float
    lost_s: float
    rows: tuple[DelayedLaunch, ...]


@dataclass(frozen=True, slots=True)
class KernelSequence:
    """A run of kernels that comes at least twice in a step, or in each of several steps.

    Attributes:
        kernels: their symbols, shortened, in order.
        count: how often it comes, a step.
        kernel_s: seconds a step in its kernels.
        gap_s: seconds a step between them.
    """

    kernels: tuple[str, ...]
    count: float
    kernel_s: float
    gap_s: float


def launches(
    timeline: Timeline,
    rank: int,
    window: Window | None = None,
    *,
    work: DeviceWork | None = None,
    launch: Ints | None = None,
) -> Launches | None:
    """Return how the work of a rank was launched; None without launch calls or device work, and
    where a pipeline's blocks are timed as wholes, whose calls are not drawn one by one.

    Args:
        timeline: predicted or measured.
        rank: whose.
        window: what to look at; by default the marked steps, else the span of the device work.
        work: device work of the window, where it is at hand; its window counts then.
        launch: as `waits.launch_rows` returns it, where it is at hand.
    """
    if work is None:
        window = choose_window(timeline, rank) if window is None else window
        if window is None:
            return None
        work = device_work(timeline, rank, window)
    window = work.window
    launch = launch_rows(timeline) if launch is None else launch
    events = timeline.events
    calls = np.flatnonzero(rank_rows(timeline, rank) & (events.kind == LAUNCH))
    issued = host_window(timeline, rank, window)
    inside = (events.start_ns[calls] < issued.end_ns) & (events.end_ns[calls] > issued.start_ns)
    pairs = LaunchPairs.of(timeline, work, launch)
    calls = calls[inside]
    if not any(step.rank == rank for step in timeline.steps):
        # The span of the device work begins after the first of its launches.
        calls = distinct(np.concatenate((calls, pairs.call)))
    if len(work) == 0 or (len(calls) == 0 and len(pairs.call) == 0):
        return None
    if any(isinstance(kernel, Kernel) and kernel.launches > 1 for kernel in timeline.kernels):
        return None
    steps = window.steps
    kernel = (work.kind == KERNEL) | (work.kind == COMMUNICATION)
    duration = events.duration_ns[calls]
    single = pairs.kernel & (pairs.works == 1)
    short = single & (pairs.duration_ns < events.duration_ns[pairs.call])
    graph = pairs.graph
    depth = _queue(pairs, window)
    return Launches(
        count=round(len(calls) / steps),
        rate_per_s=_rate_per_s(events, calls, issued),
        kernels=round(int(kernel.sum()) / steps),
        unlinked=round(int((launch[work.event] < 0).sum()) / steps),
        call_median_s=_median_s(duration),
        call_total_s=float(duration.sum()) * 1e-9 / steps,
        latency_median_s=_median_s(pairs.latency_ns),
        latency_empty_median_s=_median_s(pairs.latency_ns[pairs.unhindered]),
        empty_share=float(pairs.empty.mean()) if len(pairs.call) else None,
        short_kernels=round(int(short.sum()) / steps),
        short_share=float(short.sum() / single.sum()) if single.any() else None,
        queue_mean=depth.mean,
        queue_max=depth.most,
        queue_time_s=depth.time_s,
        queue_depth=depth.deepest,
        graph_launches=round(int(graph.sum()) / steps),
        kernels_per_graph=float(pairs.works[graph].mean()) if graph.any() else None,
        threads=_threads(timeline, calls, steps),
        call_full_s=_full_ns(duration, depth.most) * 1e-9 / steps,
    )


def _full_ns(duration_ns: Ints, most: int | None) -> int:
    """Nanoseconds of the calls that waited for room in the driver's queue."""
    if most is None or most < QUEUE_HOLDS or not len(duration_ns):
        return 0
    long = duration_ns > BLOCKED * float(np.median(duration_ns))
    return int(duration_ns[long].sum())


def _rate_per_s(events: Events, calls: Ints, window: Window) -> float:
    """Calls a second, from the first of them or the window's begin to its end."""
    begin = min(window.start_ns, int(events.start_ns[calls].min(initial=window.start_ns)))
    length = window.end_ns - begin
    return len(calls) / (length * 1e-9) if length else 0.0


@dataclass(frozen=True, slots=True)
class LaunchPairs:
    """Launch calls with the first of their work in the window, by begin of that work.

    Attributes:
        call: row in `Events` of the call.
        event: row in `Events` of its first work.
        works: how many device events of the window it brought.
        graph: it launched a graph.
        kernel: its first work is a kernel.
        duration_ns: of its first work.
        given_ns: when it was handed over; at most `begin_ns`.
        begin_ns: begin of its first work.
        latency_ns: from the begin of the call to that of its first work; at least 0.
        empty: it found its stream's queue empty.
        unhindered: it found the whole device free.
    """

    call: Ints
    event: Ints
    works: Ints
    graph: Bools
    kernel: Bools
    duration_ns: Ints
    given_ns: Ints
    begin_ns: Ints
    latency_ns: Ints
    empty: Bools
    unhindered: Bools

    @classmethod
    def of(cls, timeline: Timeline, work: DeviceWork, launch: Ints) -> LaunchPairs:
        """Pair the work of a window with its launches."""
        events = timeline.events
        call = launch[work.event]
        rows = np.flatnonzero(call >= 0)
        # First work of each call: the window's work is sorted by start.
        calls, first, works = np.unique(call[rows], return_index=True, return_counts=True)
        rows = rows[first]
        order = np.argsort(work.start_ns[rows], kind="stable")
        rows, calls, works = rows[order], calls[order], works[order]
        event = work.event[rows]
        before = _until_ns(timeline, work)
        begin = events.start_ns[event]
        given = np.minimum(launched_ns(events, event, calls), begin)
        return cls(
            call=calls,
            event=event,
            works=works,
            graph=_graphs(timeline)[events.name[calls]],
            kernel=(work.kind[rows] == KERNEL) | (work.kind[rows] == COMMUNICATION),
            duration_ns=events.duration_ns[event],
            given_ns=given,
            begin_ns=begin,
            latency_ns=np.maximum(begin - events.start_ns[calls], 0),
            empty=(given >= _free_ns(work)[rows]) & (given >= before),
            unhindered=(given >= _ended_before(work)[rows]) & (given >= before),
        )


def _graphs(timeline: Timeline) -> Bools:
    """Which names are graph launches: cudaGraphLaunch, hipGraphLaunch, "graph launch"."""
    return np.fromiter(("graph" in name.lower() for name in timeline.names), bool)


def _until_ns(timeline: Timeline, work: DeviceWork) -> int:
    """Until when what lies before the window keeps the device; far back where nothing does.

    A predicted step is one of many: the device comes to it from the step before.
    """
    if timeline.origin == "predicted":
        return work.window.start_ns
    events = timeline.events
    lanes = np.isin(events.lane, present(work.lane)) & (events.kind < DEVICE_KINDS)
    early = lanes & (events.start_ns < work.window.start_ns)
    far = int(np.iinfo(np.int64).min)
    return int(np.minimum(events.end_ns, work.window.start_ns)[early].max(initial=far))


def _free_ns(work: DeviceWork) -> Ints:
    """When the lane of each event had ended all its earlier work; far back for the first."""
    free = np.full(len(work), np.iinfo(np.int64).min, np.int64)
    for lane in present(work.lane):
        rows = np.flatnonzero(work.lane == lane)
        free[rows[1:]] = np.maximum.accumulate(work.end_ns[rows])[:-1]
    return free


def _ended_before(work: DeviceWork) -> Ints:
    """When all work of any lane that began before each event had ended; far back for the first."""
    far = np.array([np.iinfo(np.int64).min], np.int64)
    return np.concatenate((far, np.maximum.accumulate(work.end_ns)[:-1]))


@dataclass(frozen=True, slots=True)
class _Queue:
    mean: float | None
    most: int | None
    time_s: tuple[float, ...]
    deepest: tuple[int, ...]


def _queue(pairs: LaunchPairs, window: Window) -> _Queue:
    """Launches handed over and not yet begun, over the window."""
    if len(pairs.call) == 0 or window.length_ns <= 0:
        return _Queue(None, None, (), ())
    time = np.concatenate((pairs.given_ns, pairs.begin_ns))
    change = np.repeat([1, -1], len(pairs.call))
    # What begins leaves the queue before what is handed over at the same time enters it.
    order = np.lexsort((change, time))
    time = np.clip(time[order], window.start_ns, window.end_ns)
    depth = np.cumsum(change[order])
    depth = np.maximum(depth, 0)
    lasts = np.diff(np.append(time, window.end_ns))
    mean = float((depth * lasts).sum() / window.length_ns)
    seen = lasts > 0
    parts = min(CURVE_POINTS, window.length_ns)
    edges = np.linspace(window.start_ns, window.end_ns, parts, endpoint=False).astype(np.int64)
    deepest = np.zeros(parts, np.int64)
    part = np.clip(np.searchsorted(edges, time, side="right") - 1, 0, parts - 1)
    np.maximum.at(deepest, part[seen], depth[seen])
    # A depth that lasts over several parts counts in each of them.
    at = np.searchsorted(time, edges, side="right") - 1
    deepest = np.maximum(deepest, np.where(at >= 0, depth[np.maximum(at, 0)], 0))
    return _Queue(
        mean=mean,
        most=int(deepest.max()),
        time_s=tuple(((edges - window.start_ns) * 1e-9).tolist()),
        deepest=tuple(deepest.tolist()),
    )


def _threads(timeline: Timeline, calls: Ints, steps: int) -> tuple[ThreadLaunches, ...]:
    lane = timeline.events.lane[calls]
    duration = timeline.events.duration_ns[calls]
    found = [
        (int((lane == i).sum()), timeline.lanes[i].name, int(duration[lane == i].sum()))
        for i in present(lane)
    ]
    found.sort(key=lambda row: (-row[0], row[1]))
    return tuple(
        ThreadLaunches(name, round(count / steps), time * 1e-9 / steps)
        for count, name, time in found
    )


def _median_s(values: Ints) -> float | None:
    return float(np.median(values)) * 1e-9 if len(values) else None
