"""The window of a timeline that an analysis looks at, and the device work inside it.

Overlapping device work is attributed once. At every instant the time goes to one event: a
compute kernel before a communication kernel before a copy before a memset, and among events of
one sort to the one that started first. So the attributed times of all events add up to the
device's busy time to the nanosecond, communication counts where it is exposed, and a copy under
a kernel costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
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

LAG_SHARE = 0.10
"""A device whose work ends later than this share of the marked time after the last mark has run
behind its host so far that the marks do not show its steps."""

_PRIORITY = (KERNEL, COMMUNICATION, MEMCPY, MEMSET)


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
    """Return the window of the marked steps, else the span of the device work; None if neither.

    A device runs behind its host. Where the single marked step's device work does not lie
    within the host's marks, the window begins with the device work instead and keeps the step's
    length (or the work's span, if longer), so that no work is cut off. Of several steps the
    window is the first one's start to the last one's end, as `marked_steps` has them.
    """
    events = timeline.events
    rows = rank_rows(timeline, rank) & (events.kind < DEVICE_KINDS)
    steps = marked_steps(timeline, rank)
    if not rows.any():
        return Window(steps[0].start_ns, steps[-1].end_ns, len(steps)) if steps else None
    first, last = int(events.start_ns[rows].min()), int(events.end_ns[rows].max())
    if not steps:
        return Window(first, last, 1)
    start, end = min(s.start_ns for s in steps), max(s.end_ns for s in steps)
    if len(steps) == 1 and (first < start or last > end):
        return Window(first, max(last, first + end - start), 1)
    return Window(start, end, len(steps))


def marked_steps(timeline: Timeline, rank: int) -> tuple[Step, ...]:
    """Return the steps of a rank in time order, each with the time that it really took.

    Marks are the host's. A host that never waits may be done with its steps long before the
    device. Where several recorded steps are marked and the device's work for them ends later than
    `LAG_SHARE` of the marked time after the last mark, a step is what the device makes of it: from
    the begin of the first work launched in it to that of the next step, the last one to the end of
    all their work.
    """
    own = (step for step in timeline.steps if step.rank == rank and step.end_ns > step.start_ns)
    steps = tuple(sorted(own, key=lambda step: step.start_ns))
    recorded, events = timeline.recorded, timeline.events
    if recorded is None or len(steps) < 2:
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
    if last - end[-1] <= LAG_SHARE * (end[-1] - start[0]) or (np.diff(begin) <= 0).any():
        return steps
    if begin[-1] >= last:
        return steps
    edges = [*begin.tolist(), last]
    return tuple(Step(low, high, rank) for low, high in pairwise(edges))


def host_window(timeline: Timeline, rank: int, window: Window) -> Window:
    """Return the host's own marks of the steps in a window; the window where none are marked."""
    steps = [step for step in timeline.steps if step.rank == rank and step.end_ns > step.start_ns]
    if not steps or timeline.origin == "predicted" or len(steps) != window.steps:
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
