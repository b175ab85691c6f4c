"""Where a step begins and ends on the device.

The host marks a step while it issues it; the device runs behind, by any time up to several steps.
So a step's window is taken on the device: from the start of the first device work that the step
launched to that of the next step. These windows follow one another without gap, and their mean
length is the step time under the profiler.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from gpuscope.timeline.types import Ints, Step, Timeline


def device_steps(timeline: Timeline) -> tuple[Step, ...]:
    """Return the windows between the marked steps' first device works.

    Of n marked steps there are n - 1 windows: the last mark only ends the one before. Where steps
    launch nothing, or nothing is known of launches, the host's own marks are returned.
    """
    windows: list[Step] = []
    for rank in dict.fromkeys(step.rank for step in timeline.steps):
        marks = sorted(
            (s for s in timeline.steps if s.rank == rank), key=lambda step: step.start_ns
        )
        windows += _of_rank(timeline, marks, rank) or marks
    return tuple(windows)


def common_steps(windows: Sequence[Step]) -> tuple[Step, ...]:
    """Return the windows of several ranks with common edges: a step begins with its first rank.

    A rank whose host is late begins a step's device work late. In a window of its own that would be
    hidden; in one that all ranks share it is what it is, idle time within the step. Where the ranks
    did not record the same number of steps, or one lies a whole step behind another (other steps,
    other clocks, or a deep pipeline), the windows are returned as they are.

    Args:
        windows: of one rank or several, each rank's following one another.
    """
    ranks = sorted({step.rank for step in windows})
    own = [sorted((s for s in windows if s.rank == r), key=lambda s: s.start_ns) for r in ranks]
    if len(ranks) < 2 or len({len(steps) for steps in own}) > 1:
        return tuple(windows)
    edges = np.array([[*(s.start_ns for s in steps), steps[-1].end_ns] for steps in own], np.int64)
    first = edges.min(axis=0)
    lengths = np.diff(first)
    if (lengths <= 0).any() or ((edges - first)[:, :-1] >= lengths).any():
        return tuple(windows)
    return tuple(
        Step(low, high, rank) for rank in ranks for low, high in itertools.pairwise(first.tolist())
    )


def _of_rank(timeline: Timeline, marks: list[Step], rank: int) -> list[Step]:
    launched_ns, start_ns = _launches(timeline, rank)
    begins = []
    for mark in marks:
        inside = (launched_ns >= mark.start_ns) & (launched_ns < mark.end_ns)
        if not inside.any():
            return []
        begins.append(int(start_ns[inside].min()))
    if len(begins) < 2 or any(b <= a for a, b in itertools.pairwise(begins)):
        return []
    return [Step(a, b, rank) for a, b in itertools.pairwise(begins)]


def _launches(timeline: Timeline, rank: int) -> tuple[Ints, Ints]:
    """When each device event with a known launch was launched, and when it started."""
    recorded, events = timeline.recorded, timeline.events
    if recorded is None or len(recorded) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    of_rank = np.array([lane.rank == rank for lane in timeline.lanes], bool)
    known = (recorded.launch >= 0) & of_rank[events.lane[recorded.event]]
    return events.start_ns[recorded.launch[known]], events.start_ns[recorded.event[known]]
