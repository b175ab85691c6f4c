"""How the steps of a run differ from each other, and what a slow step spent its time on.

A step's window is what the host marked, or what the device made of it where that runs far behind
(`window.marked_steps`). Each moment of it counts once: to computation, to
communication that no computation hides, to copies that nothing hides, or to idle time by its cause.
A slow step is held against the mean of the typical steps (those no longer than the median), so the
differences by class add up to the whole difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.columns import OpColumns, is_any
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.host_activity import Hosts
from gpuscope.analysis.idle import IDLE_CAUSES, idle_pieces
from gpuscope.analysis.recorded_types import RankSteps, SlowStep, StepSpread
from gpuscope.analysis.window import (
    COMMUNICATION,
    KERNEL,
    Window,
    device_work,
    marked_steps,
    rank_rows,
)
from gpuscope.timeline.intervals import subtraction
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS, Ints, Step, Timeline

Floats = npt.NDArray[np.float64]

Context = tuple[OpColumns, Hosts]

NS = 1e-9

_MARKS = (EVENT_KINDS.index("step"), EVENT_KINDS.index("module"))

LEAST_STEPS = 3
"""With fewer steps there is no telling which one is the exception."""

SLOW = 1.2
"""A slow step takes this much of the median, and three robust deviations more than it."""

MOST_SLOW = 5
"""Slow steps that are explained one by one."""

MOST_CAUSES = 5
"""Single names given for a slow step."""

_JITTER: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("data loader", r"dataloader.*(__next__|_next_data)|data_loader.*__next__"),
        ("garbage collection", r"\bgc\b|garbage collect|^gc[.:]|\bgc_collect"),
        (
            "allocation on the device",
            r"^(cuda|hip|cu)(Malloc|Free)(Async|Host|Managed)?$|^cuMem(Create|Map|Release)$",
        ),
        (
            "compilation",
            r"compile_fx|_compile\b|inductor.*compil|dynamo.*compil|async_compile|nvrtcCompile",
        ),
    )
)


def step_spread(
    timeline: Timeline, ops: OpColumns | None = None, hosts: Hosts | None = None
) -> StepSpread | None:
    """Return how the steps differ, by rank; None where no rank has three steps."""
    by_rank = {rank: marked_steps(timeline, rank) for rank in {s.rank for s in timeline.steps}}
    enough = {rank: steps for rank, steps in by_rank.items() if len(steps) >= LEAST_STEPS}
    if not enough:
        return None
    ops = OpColumns.of(timeline) if ops is None else ops
    context = ops, Hosts(timeline, ops) if hosts is None else hosts
    return StepSpread(
        tuple(_rank_steps(timeline, rank, steps, context) for rank, steps in sorted(enough.items()))
    )


def _rank_steps(
    timeline: Timeline, rank: int, steps: Sequence[Step], context: Context
) -> RankSteps:
    start = np.array([step.start_ns for step in steps], np.int64)
    end = np.array([step.end_ns for step in steps], np.int64)
    time = (end - start).astype(np.float64) * NS
    median = float(np.median(time))
    low, high = (float(np.percentile(time, q)) for q in (10, 90))
    return RankSteps(
        rank=rank,
        times_s=tuple(time.tolist()),
        median_s=median,
        mean_s=float(time.mean()),
        fastest_s=float(time.min()),
        slowest_s=float(time.max()),
        spread=(high - low) / median if median > 0 else 0.0,
        slow=_slow(timeline, rank, start, end, context),
        jitter=_jitter(timeline, rank, start, end),
    )


def slow_steps(time_s: Floats) -> Ints:
    """Return which steps are slow, longest first."""
    median = float(np.median(time_s))
    deviation = 1.4826 * float(np.median(np.abs(time_s - median)))
    slow = np.flatnonzero((time_s > SLOW * median) & (time_s > median + 3 * deviation))
    return np.asarray(slow[np.argsort(-time_s[slow], kind="stable")], np.int64)


def _slow(
    timeline: Timeline, rank: int, start: Ints, end: Ints, context: Context
) -> tuple[SlowStep, ...]:
    time = (end - start).astype(np.float64) * NS
    slow = slow_steps(time)[:MOST_SLOW]
    if len(slow) == 0:
        return ()
    typical = np.flatnonzero(time <= np.median(time))
    labels, parts = _classes(timeline, rank, start, end, context)
    names, spent = _names(timeline, rank, start, end)
    found = []
    for number in slow.tolist():
        extra = parts[number] - parts[typical].mean(axis=0)
        order = np.argsort(-np.abs(extra), kind="stable")
        longer = spent[number] - spent[typical].mean(axis=0)
        most = np.argsort(-longer, kind="stable")[:MOST_CAUSES]
        beyond = float(time[number] - time[typical].mean())
        found.append(
            SlowStep(
                number=number,
                start_ns=int(start[number]),
                time_s=float(time[number]),
                extra_s=beyond,
                parts=tuple((labels[i], float(extra[i])) for i in order if extra[i]),
                causes=tuple(
                    (timeline.names[names[i]], float(longer[i]))
                    for i in most
                    if longer[i] >= 0.1 * beyond
                ),
            )
        )
    return tuple(found)


def _classes(
    timeline: Timeline, rank: int, start: Ints, end: Ints, context: Context
) -> tuple[tuple[str, ...], Floats]:
    """Seconds of each step (rows) by class (columns); rows add up to the steps."""
    window = Window(int(start.min()), int(end.max()), len(start))
    work = device_work(timeline, rank, window)
    compute = _cover(work.start_ns, work.end_ns, work.kind == KERNEL)
    talks = _cover(work.start_ns, work.end_ns, work.kind == COMMUNICATION)
    talks_alone = Cover.of(
        *subtraction((talks.start_ns, talks.end_ns), (compute.start_ns, compute.end_ns))
    )
    columns = {
        "computation": compute.within(start, end),
        "communication": talks_alone.within(start, end),
    }
    busy = work.busy.within(start, end)
    columns["copies"] = busy - columns["computation"] - columns["communication"]
    pieces = idle_pieces(timeline, work, context[1](rank), context[0])
    left = (end - start) - busy
    for code, cause in enumerate(IDLE_CAUSES):
        idle = _cover(pieces.start_ns, pieces.end_ns, pieces.cause == code).within(start, end)
        columns[f"idle: {cause}"] = idle
        left = left - idle
    columns["idle: unknown"] = columns["idle: unknown"] + left
    return tuple(columns), np.stack(list(columns.values()), axis=1).astype(np.float64) * NS


def _cover(start: Ints, end: Ints, rows: npt.NDArray[np.bool_]) -> Cover:
    return Cover.of(start[rows], end[rows])


def _names(timeline: Timeline, rank: int, start: Ints, end: Ints) -> tuple[Ints, Floats]:
    """Seconds of each step (rows) by event name (columns), events counted where they start.

    Marks and annotations around whole steps are left out: everything is inside of them.
    """
    events = timeline.events
    rows = np.flatnonzero(rank_rows(timeline, rank))
    marks = is_any(events.kind[rows], _MARKS, len(EVENT_KINDS))
    order = np.argsort(start, kind="stable")
    step = np.searchsorted(start[order], events.start_ns[rows], side="right") - 1
    inside = (step >= 0) & ~marks
    inside &= events.start_ns[rows] < end[order][np.maximum(step, 0)]
    length = (end - start)[order][np.maximum(step, 0)]
    inside &= (events.duration_ns[rows] < 0.9 * length) | (events.kind[rows] < DEVICE_KINDS)
    rows, step = rows[inside], order[step[inside]]
    names, code = np.unique(events.name[rows], return_inverse=True)
    cells = step * len(names) + code.reshape(-1)
    spent = np.bincount(cells, weights=events.duration_ns[rows], minlength=len(start) * len(names))
    return names, np.asarray(spent.reshape(len(start), -1) * NS, np.float64)


def _jitter(
    timeline: Timeline, rank: int, start: Ints, end: Ints
) -> dict[str, tuple[float, float]]:
    """Median and largest host seconds in a step of what is known to vary."""
    events = timeline.events
    host = rank_rows(timeline, rank) & (events.kind >= DEVICE_KINDS)
    found = {}
    for name, pattern in _JITTER:
        wanted = np.array([bool(pattern.search(text)) for text in timeline.names], bool)
        if not wanted.any():
            continue
        rows = host & wanted[events.name]
        spent = _cover(events.start_ns, events.end_ns, rows).within(start, end)
        if spent.any():
            found[name] = float(np.median(spent)) * NS, float(spent.max()) * NS
    return found
