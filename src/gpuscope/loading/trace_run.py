"""A recorded timeline as a `Run`: its steps, its device, its memory, what it means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpuscope.analysis import analyze
from gpuscope.analysis.device_of import device_of
from gpuscope.analysis.found_steps import with_steps
from gpuscope.analysis.modelled import modelled
from gpuscope.analysis.window import choose_window, device_ranks, marked_steps, rank_rows
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.hardware.device import Device
from gpuscope.run import Run
from gpuscope.timeline.intervals import union_length
from gpuscope.timeline.ranks import ranks_of
from gpuscope.timeline.types import DEVICE_KINDS, Step, Timeline

_NS = 1e-9

INTERVAL_STEPS = 3
"""Fewest steps that an interval is given for."""


def trace_run(
    timeline: Timeline,
    *,
    name: str,
    device: Device | None = None,
    steps: tuple[int, int] | None = None,
    notes: Sequence[str] = (),
) -> Run:
    """Analyse a recorded timeline.

    The step time is the median of the marked steps of the first rank that has device work, its
    interval from their 10th to their 90th percentile (from three steps on). Steps that are not
    marked are looked for (`gpuscope.analysis.found_steps`); where there are none it is the span of
    that rank's device work, or of its events where it has none.

    Args:
        timeline: recorded, of one rank or many.
        name: of the run.
        device: what it ran on; None: as the recording says, if the catalogue knows it.
        steps: first and last marked step to look at, from 0; None: all.
        notes: remarks of whoever read it.

    Raises:
        InvalidValueError: there is no such step.
    """
    timeline = with_steps(timeline)
    if steps is not None:
        timeline = chosen_steps(timeline, *steps)
    device = device or device_of(timeline)
    timeline = modelled(timeline, device)
    ranks = device_ranks(timeline) or ranks_of(timeline) or (0,)
    analysis = analyze(timeline, on=device)
    time_s, interval = step_time(timeline, ranks[0])
    busy_s, host_s = _busy_s(timeline, ranks[0]), analysis.host_work_s
    memory = analysis.memory
    return Run(
        name=name,
        target=_target(timeline, device),
        device_id=device.id if device else "",
        origin="measured",
        step_time_s=time_s,
        step_time_interval_s=interval,
        device_busy_s=busy_s,
        host_busy_s=host_s,
        peak_memory_bytes=memory.peak_bytes if memory else None,
        reserved_memory_bytes=memory.reserved_bytes if memory else None,
        energy_j=None,
        fits=memory.fits if memory else None,
        timeline=timeline,
        analysis=analysis,
        ranks=tuple(ranks),
        assumptions=tuple(dict.fromkeys((*timeline.notes, *notes))),
        origins=_origins(not math.isnan(busy_s), host_s is not None, memory is not None),
    )


def step_time(timeline: Timeline, rank: int) -> tuple[float, tuple[float, float]]:
    """Return the step time of a rank and its interval, in seconds (see `trace_run`)."""
    lengths = np.array([step.end_ns - step.start_ns for step in marked_steps(timeline, rank)])
    if len(lengths):
        median = float(np.median(lengths)) * _NS
        if len(lengths) < INTERVAL_STEPS:
            return median, (median, median)
        low, high = np.quantile(lengths, (0.1, 0.9)) * _NS
        return median, (min(float(low), median), max(float(high), median))
    window = choose_window(timeline, rank)
    if window is not None:
        return window.length_ns * _NS, (window.length_ns * _NS,) * 2
    events = timeline.events
    if not len(events):
        return 0.0, (0.0, 0.0)
    span = int(events.end_ns.max() - events.start_ns.min()) * _NS
    return span, (span, span)


def chosen_steps(timeline: Timeline, first: int, last: int) -> Timeline:
    """Return the timeline with only some of its marked steps, counted from 0 on each rank.

    Raises:
        InvalidValueError: a rank has no such steps.
    """
    kept: list[Step] = []
    most = 0
    for rank in sorted({step.rank for step in timeline.steps}):
        own = [step for step in timeline.steps if step.rank == rank]
        most = max(most, len(own))
        kept += own[first : last + 1]
    if first < 0 or last < first or not kept or last >= most:
        there = (
            Text("There are {most}, numbered from 0.", most=most)
            if most
            else Text("No step is marked.")
        )
        raise InvalidValueError(
            Text("There are no steps {first} to {last}.", first=first, last=last),
            there,
            Text("Leave out --steps to see all.")
            if not most
            else Text("Type: --steps 0..{most}", most=most - 1),
        )
    kept.sort(key=lambda step: (step.start_ns, step.rank))
    return replace(timeline, steps=tuple(kept))


def _busy_s(timeline: Timeline, rank: int) -> float:
    """Device seconds of a step; NaN for a device of which nothing is recorded."""
    window = choose_window(timeline, rank)
    if window is None or not device_ranks(timeline):
        return math.nan
    events = timeline.events
    rows = np.flatnonzero(rank_rows(timeline, rank) & (events.kind < DEVICE_KINDS))
    start = np.maximum(events.start_ns[rows], window.start_ns)
    end = np.minimum(events.end_ns[rows], window.end_ns)
    return union_length(start, end) * _NS / window.steps


def _target(timeline: Timeline, device: Device | None) -> str:
    """The device in words; how many where several ranks are there."""
    recorded = [d.name for source in timeline.sources for d in source.devices if d.name]
    name = device.name if device else (recorded[0] if recorded else Text("an unknown device"))
    count = len(device_ranks(timeline))
    return f"{count}× {name}" if count > 1 else name


def _origins(device: bool, host: bool, memory: bool) -> dict[str, str]:
    fields = ["step_time_s"]
    fields += ["device_busy_s"] if device else []
    fields += ["host_busy_s"] if host else []
    fields += ["peak_memory_bytes"] if memory else []
    return dict.fromkeys(fields, "measured")
