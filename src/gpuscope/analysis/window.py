"""The window of a timeline that an analysis looks at, and the device work inside it.

Overlapping device work is attributed once. At every instant the time goes to one event: a
compute kernel before a communication kernel before a copy before a memset, and among events of
one sort to the one that started first. So the attributed times of all events add up to the
device's busy time to the nanosecond, communication counts where it is exposed, and a copy under
a kernel costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.cover import Cover
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS, Ints, Step, Timeline

KERNEL = EVENT_KINDS.index("kernel")
COMMUNICATION = EVENT_KINDS.index("communication")
MEMCPY = EVENT_KINDS.index("memcpy")
MEMSET = EVENT_KINDS.index("memset")
OPERATOR = EVENT_KINDS.index("operator")
LAUNCH = EVENT_KINDS.index("launch")
SYNC = EVENT_KINDS.index("sync")
STEP = EVENT_KINDS.index("step")

LAG_SHARE = 0.10
"""A device whose work ends later than this share of the marked time after the last mark has run
behind its host so far that the marks do not show its steps."""

_PRIORITY = (KERNEL, COMMUNICATION, MEMCPY, MEMSET)


def talks(timeline: Timeline) -> bool:
    """Whether any of a timeline's events is communication."""
    return bool((timeline.events.kind == COMMUNICATION).any())


@dataclass(frozen=True, slots=True)
class Window:
    """[start_ns, end_ns) with the number of steps in it (1 where no step is marked)."""

    start_ns: int
    end_ns: int
    steps: int

    @property
    def length_ns(self) -> int:
        """Nanoseconds from start to end."""
        return self.end_ns - self.start_ns

    @property
    def bounds(self) -> tuple[int, int]:
        """Start and end."""
        return self.start_ns, self.end_ns


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """Device events of one rank, cut at the window, sorted by start; columns as in `Events`.

    Attributes:
        event: row in `Events`.
        attributed_ns: each event's part of the busy time; sums to it exactly.
        busy: the union of all events.
        window: where it was cut.
    """

    event: Ints
    start_ns: Ints
    end_ns: Ints
    attributed_ns: Ints
    kind: Ints
    name: Ints
    lane: Ints
    op: Ints
    kernel: Ints
    correlation: Ints
    busy: Cover
    window: Window

    def __len__(self) -> int:
        """Number of device events."""
        return len(self.start_ns)


def device_ranks(timeline: Timeline) -> tuple[int, ...]:
    """Return the ranks that have device work, ascending."""
    rows = timeline.events.kind < DEVICE_KINDS
    lanes = np.bincount(timeline.events.lane[rows], minlength=1)
    return tuple(sorted({timeline.lanes[lane].rank for lane in np.flatnonzero(lanes).tolist()}))


def rank_rows(timeline: Timeline, rank: int) -> npt.NDArray[np.bool_]:
    """Return which events lie on lanes of this rank."""
    of_rank = np.fromiter((lane.rank == rank for lane in timeline.lanes), bool, len(timeline.lanes))
    if len(timeline.events) == 0:
        return np.zeros(0, bool)
    return of_rank[timeline.events.lane]


def choose_window(timeline: Timeline, rank: int) -> Window | None:
    """Return the window of the steps, else the span of the device work; None if neither.

    It is the first step's start to the last one's end, as `marked_steps` has them, so that a step
    time and the shares beside it are of one window.
    """
    steps = marked_steps(timeline, rank)
    if steps:
        return Window(min(s.start_ns for s in steps), max(s.end_ns for s in steps), len(steps))
    span = _device_span(timeline, rank)
    return None if span is None else Window(*span, 1)


def _device_span(timeline: Timeline, rank: int) -> tuple[int, int] | None:
    """First start and last end of a rank's device work; None without any."""
    events = timeline.events
    rows = rank_rows(timeline, rank) & (events.kind < DEVICE_KINDS)
    if not rows.any():
        return None
    return int(events.start_ns[rows].min()), int(events.end_ns[rows].max())


def marked_steps(timeline: Timeline, rank: int) -> tuple[Step, ...]:
    """Return the steps of a rank in time order, each with the time that it really took.

    Marks are the host's, and a device runs behind its host. Where a single step is marked and its
    device work does not lie within the marks, the step begins with the device work instead and
    keeps its length (or the work's span, if longer), so that no work is cut off.

    A host that never waits may be done with its steps long before the device. Where several
    recorded steps are marked and the device's work for them ends later than `LAG_SHARE` of the
    marked time after the last mark, or where the steps were found without marks, a step is what
    the device makes of it: from the begin of the first work launched in it to that of the next
    step, the last one to the end of all their work.
    """
    own = (step for step in timeline.steps if step.rank == rank and step.end_ns > step.start_ns)
    steps = tuple(sorted(own, key=lambda step: step.start_ns))
    if len(steps) == 1:
        return (_around_work(steps[0], _device_span(timeline, rank)),)
    recorded, events = timeline.recorded, timeline.events
    if recorded is None or not steps:
        return steps
    rows = recorded.event[(recorded.launch >= 0) & rank_rows(timeline, rank)[recorded.event]]
    call = recorded.launch[np.searchsorted(recorded.event, rows)]
    start = np.array([step.start_ns for step in steps], np.int64)
    end = np.array([step.end_ns for step in steps], np.int64)
    at = np.searchsorted(start, events.start_ns[call], side="right") - 1
    inside = (at >= 0) & (events.start_ns[call] < end[np.maximum(at, 0)])
    rows, at = rows[inside], at[inside]
    begin = np.full(len(steps), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(begin, at, events.start_ns[rows])
    last = int(events.end_ns[rows].max(initial=start[0]))
    behind = bool(steps[0].found) or last - end[-1] > LAG_SHARE * (end[-1] - start[0])
    if not behind or (np.diff(begin) <= 0).any() or begin[-1] >= last:
        return steps
    edges = [*begin.tolist(), last]
    return tuple(
        replace(step, start_ns=low, end_ns=high)
        for step, (low, high) in zip(steps, pairwise(edges), strict=True)
    )


def _around_work(step: Step, span: tuple[int, int] | None) -> Step:
    """A single step, moved to the device's work where that lies outside of it."""
    if span is None or (span[0] >= step.start_ns and span[1] <= step.end_ns):
        return step
    first, last = span
    if step.found:
        return replace(step, start_ns=first, end_ns=last)
    return replace(step, start_ns=first, end_ns=max(last, first + step.end_ns - step.start_ns))


def host_window(timeline: Timeline, rank: int, window: Window) -> Window:
    """Return the host's own marks of the steps in a window; the window where none are marked.

    A host runs ahead: when the device begins a step, the host may have launched most of it. Of a
    prediction, whose steps are the device's, the host's mark is an event.
    """
    if timeline.origin == "predicted":
        events = timeline.events
        rows = np.flatnonzero(rank_rows(timeline, rank) & (events.kind == STEP))
        if not len(rows) or len(rows) != window.steps:
            return window
        start, end = events.start_ns[rows], events.end_ns[rows]
        return Window(int(start.min()), int(end.max()), window.steps)
    steps = [step for step in timeline.steps if step.rank == rank and step.end_ns > step.start_ns]
    if not steps or len(steps) != window.steps:
        return window
    return Window(min(s.start_ns for s in steps), max(s.end_ns for s in steps), window.steps)


def device_work(timeline: Timeline, rank: int, window: Window) -> DeviceWork:
    """Return the device events of a rank inside the window, with their attributed time."""
    events = timeline.events
    rows = rank_rows(timeline, rank) & (events.kind < DEVICE_KINDS)
    rows &= (events.start_ns < window.end_ns) & (events.end_ns > window.start_ns)
    start = np.maximum(events.start_ns[rows], window.start_ns)
    end = np.minimum(events.end_ns[rows], window.end_ns)
    kind = events.kind[rows]
    order = np.argsort(start, kind="stable")
    columns = {
        column: getattr(events, column)[rows][order]
        for column in ("name", "lane", "op", "kernel", "correlation")
    }
    start, end, kind = start[order], end[order], kind[order]
    return DeviceWork(
        event=np.flatnonzero(rows)[order],
        start_ns=start,
        end_ns=end,
        attributed_ns=attribute(start, end, kind),
        kind=kind,
        busy=Cover.of(start, end),
        window=window,
        **columns,
    )


def attribute(start_ns: Ints, end_ns: Ints, kind: Ints) -> Ints:
    """Return each event's part of the union of all events (rule: see the module's docstring).

    Args:
        start_ns, end_ns: the events, sorted by start.
        kind: index into `EVENT_KINDS`, device work only.
    """
    share = np.zeros(len(start_ns), np.int64)
    above = np.zeros(len(start_ns), bool)
    for sort in _PRIORITY:
        rows = np.flatnonzero(kind == sort)
        if len(rows) == 0:
            continue
        start, end = start_ns[rows], end_ns[rows]
        reached = np.concatenate((start[:1], np.maximum.accumulate(end)[:-1]))
        begin = np.minimum(np.maximum(start, reached), end)
        taken = Cover.of(start_ns[above], end_ns[above])
        share[rows] = end - begin - taken.within(begin, end)
        above[rows] = True
    return share
