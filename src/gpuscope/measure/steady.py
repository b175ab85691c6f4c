"""Keep the steady steps of a recording: without the profiler's first step, and what comes after.

The first step under a profiler is slower than the others (buffers are made, libraries loaded), and
the last mark only ends the step before (see `step_windows`). Both go, with their events: what is
left begins with the first kept step and ends with the last one.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt

from gpuscope.measure.step_windows import device_steps
from gpuscope.timeline.types import DEVICE_KINDS, Counter, Events, Ints, Recorded, Step, Timeline

Flags = npt.NDArray[np.bool_]


def steady(timeline: Timeline) -> Timeline:
    """Return the timeline with device step windows, cut to the steady ones.

    A rank with a single window keeps it; one whose launches or marks are unknown keeps everything.
    """
    windows = device_steps(timeline)
    kept: list[Step] = []
    keep = np.zeros(len(timeline.events), bool)
    for rank in sorted({lane.rank for lane in timeline.lanes}):
        own = [step for step in windows if step.rank == rank]
        marks = sorted(
            (s for s in timeline.steps if s.rank == rank), key=lambda step: step.start_ns
        )
        on_device = own != marks  # else nothing is known of launches, and nothing can be cut
        steps = own[1:] if on_device and len(own) > 1 else own
        kept += steps
        keep |= _inside(timeline, rank, steps if on_device else [], marks[len(own) > 1 :])
    return _cut(replace(timeline, steps=tuple(sorted(kept, key=_order))), keep)


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
        for column in (recorded.launch[rows], recorded.operator[rows]):
            keep[column[column >= 0]] = True  # the host may have been far ahead
    if keep.all():
        return timeline
    row = np.full(len(keep) + 1, -1, np.int64)  # the last one stands for -1, unknown
    row[np.flatnonzero(keep)] = np.arange(int(keep.sum()))
    events = Events(**{f.name: getattr(timeline.events, f.name)[keep] for f in fields(Events)})
    return replace(
        timeline, events=events, recorded=None if recorded is None else _rows(recorded, row),
        counters=tuple(_within(counter, timeline.steps) for counter in timeline.counters),
    )  # fmt: skip


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
