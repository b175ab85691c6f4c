"""Steps of a recording that marks none: by its optimizer, else by its repeated kernels.

A recording of two steps says how long two steps take. Where nobody marked them they are looked for
twice: in the ranges that PyTorch opens around `Optimizer.step`, and in the sequence of kernels,
which repeats from step to step. Where neither tells, the recording has no steps.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.window import LAUNCH, device_ranks, rank_rows
from gpuscope.timeline.types import DEVICE_KINDS, Ints, Step, Timeline

_OPTIMIZER = re.compile(r"^Optimizer\.step#")

ALIKE = 0.25
"""Launches of steps of one run differ by less than this share (evaluations, clipping, logging)."""

LEAST_PERIOD = 16
"""A shorter sequence that repeats is an operator in a loop, not a step."""

BEHIND = 1.0
"""A device that ends later than the marks by this part of their length does not run its steps
within them."""

TIED = 0.5
"""With less of its work tied to launches, the steps cannot be moved to it."""

_MOST_LAGS = 64
_PROBES = 2048


def with_steps(timeline: Timeline) -> Timeline:
    """Return a recording with steps where it marks none and they can be found.

    Marks that cannot be its steps are left out: see `_usable`.

    A step found by the optimizer reaches from the end of one `Optimizer.step` to the end of the
    next, on the host; one found by its kernels from the launch of the first kernel of the sequence
    to that of the next. Ranks whose steps differ in number have none: they would not be the same.
    """
    if timeline.recorded is None or timeline.origin == "predicted":
        return timeline
    if timeline.steps:
        return timeline if _usable(timeline) else replace(timeline, steps=())
    found: list[tuple[Step, ...]] = []
    for rank in device_ranks(timeline):
        own = _by_optimizer(timeline, rank) or _by_kernels(timeline, rank)
        if not own:
            return timeline
        found.append(own)
    if not found or len({len(steps) for steps in found}) > 1:
        return timeline
    steps = sorted((s for own in found for s in own), key=lambda s: (s.start_ns, s.rank))
    return replace(timeline, steps=tuple(steps))


def _usable(timeline: Timeline) -> bool:
    """Whether the marks show the steps: the device's work lies within them or is tied to them.

    A host that never waits is done with its steps long before the device. Which work belongs to
    which step then only the launches tell; a file that ends in the middle may lack them.
    """
    events, recorded = timeline.events, timeline.recorded
    for rank in device_ranks(timeline) if recorded is not None else ():
        marks = [step for step in timeline.steps if step.rank == rank]
        rows = np.flatnonzero(rank_rows(timeline, rank) & (events.kind < DEVICE_KINDS))
        if not marks or len(rows) == 0 or recorded is None:
            continue
        at = np.minimum(np.searchsorted(recorded.event, rows), len(recorded) - 1)
        tied = (recorded.event[at] == rows) & (recorded.launch[at] >= 0)
        low, high = min(s.start_ns for s in marks), max(s.end_ns for s in marks)
        behind = int(events.end_ns[rows].max()) - high > BEHIND * (high - low)
        if behind and tied.mean() < TIED:
            return False
    return True


def _by_optimizer(timeline: Timeline, rank: int) -> tuple[Step, ...]:
    """Steps between the ends of the optimizer's ranges."""
    events, rows = timeline.events, rank_rows(timeline, rank)
    named = np.array([bool(_OPTIMIZER.match(name)) for name in timeline.names], bool)
    on_host = np.array([lane.kind == "host" for lane in timeline.lanes], bool)
    marks = np.flatnonzero(rows & named[events.name] & on_host[events.lane])
    launches = np.sort(events.start_ns[rows & (events.kind == LAUNCH)])
    if len(marks) == 0 or len(launches) == 0:
        return ()
    ends = _outermost_ends(events.start_ns[marks], events.end_ns[marks])
    first = int(events.start_ns[rows].min())
    edges = np.concatenate(([first], ends))
    count = np.diff(np.searchsorted(launches, edges))
    after = len(launches) - int(np.searchsorted(launches, ends[-1]))
    grouped = _equal_groups(count, edges)
    if grouped is None:
        return ()
    count, edges = grouped
    typical = float(np.median(count[1:] if len(count) > 2 else count))
    if count[0] < (1 - ALIKE) * typical:
        count, edges = count[1:], edges[1:]  # recorded from the middle of a step on
    if len(count) == 1 and after > ALIKE * typical:
        return ()  # parts of two steps
    return tuple(
        Step(low, high, rank, "optimizer") for low, high in pairwise(map(int, edges.tolist()))
    )


def _outermost_ends(start: Ints, end: Ints) -> Ints:
    """Ends of the ranges that lie in no other one, ascending."""
    order = np.lexsort((-end, start))
    start, end = start[order], end[order]
    before = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]))
    return end[end > before]


def _equal_groups(count: Ints, edges: Ints) -> tuple[Ints, Ints] | None:
    """Join ranges until all have about as many launches: two optimizers may share a step.

    Returns:
        Launches and edges of the joined ranges; None where no joining makes them alike. (All of
        them joined proves nothing.)
    """
    for each in range(1, max(1, len(count) // 2) + 1):
        # From the end, since the first range may be cut.
        last = len(edges) - 1
        picks = np.arange(last, -1, -each)[::-1]
        joined = np.diff(np.concatenate(([0], np.cumsum(count)))[picks])
        if len(joined) == 0:
            continue
        whole = joined[1:] if len(joined) > 2 else joined
        if np.ptp(whole) <= ALIKE * whole.max() and whole.max() > 0:
            return joined, edges[picks]
    return None


def _by_kernels(timeline: Timeline, rank: int) -> tuple[Step, ...]:
    """Steps between the first kernels of a sequence that the rank's busiest stream repeats."""
    events, recorded = timeline.events, timeline.recorded
    rows = np.flatnonzero(rank_rows(timeline, rank) & (events.kind < DEVICE_KINDS - 2))
    if recorded is None or len(rows) < 2 * LEAST_PERIOD:
        return ()
    lane = int(np.bincount(events.lane[rows]).argmax())
    rows = rows[events.lane[rows] == lane]
    period = repeated(events.name[rows])
    if period is None:
        return ()
    firsts = rows[::period]
    at = np.minimum(np.searchsorted(recorded.event, firsts), len(recorded) - 1)
    call = np.where(recorded.event[at] == firsts, recorded.launch[at], -1)
    begin = np.where(call >= 0, events.start_ns[np.maximum(call, 0)], events.start_ns[firsts])
    if (call < 0).any():
        begin = events.start_ns[firsts]
    whole = len(rows) // period
    end = int(events.end_ns[rows].max())
    edges = [*begin[:whole].tolist(), int(begin[whole]) if len(begin) > whole else end]
    if any(high <= low for low, high in pairwise(edges)):
        return ()
    return tuple(Step(low, high, rank, "kernels") for low, high in pairwise(edges))


def repeated(code: Ints) -> int | None:
    """Return the length of the sequence that a column repeats at least twice; None if none.

    Nothing may stand outside of the repetition but a last part: what occurs once (an embedding
    before equal layers, a loss after them) says that what repeats are layers, not steps.

    Args:
        code: what ran, in order.
    """
    n = len(code)
    if n < 2 * LEAST_PERIOD:
        return None
    count = np.bincount(code)
    present = np.flatnonzero(count)
    rarest = int(present[count[present].argmin()])
    at = np.flatnonzero(code == rarest)
    lags = np.unique(at[1 : _MOST_LAGS + 1] - at[0])
    for lag in lags[lags <= n // 2].tolist():
        if _repeats(code, lag):
            return lag if lag >= LEAST_PERIOD else None
    return None


def _repeats(code: npt.NDArray[np.int64], lag: int) -> bool:
    """Whether every element is that of `lag` places before."""
    probes = np.linspace(lag, len(code) - 1, min(_PROBES, len(code) - lag)).astype(np.int64)
    if (code[probes] != code[probes - lag]).any():
        return False
    return bool((code[lag:] == code[:-lag]).all())
