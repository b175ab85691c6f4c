"""Keep the steady steps of a recording: without the profiler's first step, and what comes after.

The first step under a profiler is slower than the others (buffers are made, libraries loaded), and
the last mark only ends the step before (see `step_windows`). Both go, with their events: what is
left begins with the first kept step and ends with the last one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt

from gpuscope.measurement.step_windows import common_steps, device_steps
from gpuscope.timeline.types import (
    DEVICE_KINDS,
    EVENT_KINDS,
    Counter,
    Events,
    Ints,
    Recorded,
    Step,
    Timeline,
)

LAUNCH = EVENT_KINDS.index("launch")

Flags = npt.NDArray[np.bool_]


def steady(timeline: Timeline, most: int | None = None) -> Timeline:
    """Return the timeline with device step windows, cut to the steady ones.

    A rank with a single window keeps it; one whose launches or marks are unknown keeps everything.

    Args:
        timeline: with the host's marks of its steps.
        most: the last so many steps of each rank are kept; None keeps all but the first.
    """
    windows, marked = _by_rank(device_steps(timeline)), _by_rank(timeline.steps)
    # A rank with its own marks for windows: nothing is known of launches, nothing can be cut.
    on_device = {rank for rank, steps in windows.items() if steps != marked[rank]}
    if on_device == set(windows):
        windows = _by_rank(common_steps([s for steps in windows.values() for s in steps]))
    kept: list[Step] = []
    keep = np.zeros(len(timeline.events), bool)
    for rank in sorted({lane.rank for lane in timeline.lanes}):
        own = windows.get(rank, [])
        left_out = 0
        if rank in on_device and len(own) > 1:
            left_out = 1 if most is None else max(1, len(own) - most)
        steps = own[left_out:]
        kept += steps
        cut_to = steps if rank in on_device else []
        keep |= _inside(timeline, rank, cut_to, marked.get(rank, [])[left_out:])
    return _cut(replace(timeline, steps=tuple(sorted(kept, key=_order))), keep)


def _by_rank(steps: Iterable[Step]) -> dict[int, list[Step]]:
    """Each rank's steps in time order."""
    found: dict[int, list[Step]] = {}
    for step in sorted(steps, key=_order):
        found.setdefault(step.rank, []).append(step)
    return found


def _order(step: Step) -> tuple[int, int]:
    return step.start_ns, step.rank


def _inside(timeline: Timeline, rank: int, steps: list[Step], marks: list[Step]) -> Flags:
    """Which events of a rank belong to the steps: device work by start, host events by marks."""
    events = timeline.events
    of_rank = np.array([lane.rank == rank for lane in timeline.lanes], bool)[events.lane]
    if not steps:
        return of_rank
    first, last = steps[0].start_ns, steps[-1].end_ns
    begin = min([first, *(mark.start_ns for mark in marks[:1])])
    device = events.kind < DEVICE_KINDS
    found: Flags = of_rank & np.where(
        device,
        (events.start_ns >= first) & (events.start_ns < last),
        (events.end_ns > begin) & (events.start_ns < last),
    )
    return found


def _cut(timeline: Timeline, keep: Flags) -> Timeline:
    recorded = timeline.recorded
    if recorded is not None and len(recorded):
        rows = keep[recorded.event]
        # Launches of work that was cut go with it, else the work would seem to have been lost.
        gone = recorded.launch[~rows & (recorded.launch >= 0)]
        keep[gone[timeline.events.kind[gone] == LAUNCH]] = False
        for column in (recorded.launch[rows], recorded.operator[rows]):
            keep[column[column >= 0]] = True  # the host may have been far ahead
    if keep.all():
        return timeline
    row = np.full(len(keep) + 1, -1, np.int64)  # the last one stands for -1, unknown
    row[np.flatnonzero(keep)] = np.arange(int(keep.sum()))
    events = Events(**{f.name: getattr(timeline.events, f.name)[keep] for f in fields(Events)})
    return replace(
        timeline,
        events=events,
        recorded=None if recorded is None else _rows(recorded, row),
        counters=tuple(_within(counter, timeline.steps) for counter in timeline.counters),
    )


def _rows(recorded: Recorded, row: Ints) -> Recorded:
    kept = row[recorded.event] >= 0
    columns = {f.name: getattr(recorded, f.name)[kept] for f in fields(Recorded)}
    for name in ("event", "launch", "operator"):
        columns[name] = row[columns[name]]
    return Recorded(**columns)


def _within(counter: Counter, steps: tuple[Step, ...]) -> Counter:
    """The counter from the last point before the steps to their end."""
    if not steps or not len(counter.time_ns):
        return counter
    first = int(np.searchsorted(counter.time_ns, min(s.start_ns for s in steps), "right")) - 1
    last = int(np.searchsorted(counter.time_ns, max(s.end_ns for s in steps), "left"))
    rows = slice(max(0, first), max(last, first + 1, 1))
    return Counter(counter.name, counter.unit, counter.time_ns[rows], counter.value[rows])
