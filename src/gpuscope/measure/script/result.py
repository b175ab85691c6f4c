"""From the trace of a program's steps, and the times of the others, to a `Run`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuscope.analysis.window import choose_window, device_ranks
from gpuscope.measure.accelerator import Accelerator, machine_facts
from gpuscope.measure.assemble import busy_s, device_busy_s, measured_analysis, with_energy
from gpuscope.measure.profiling import own_timeline
from gpuscope.measure.sensors import Reading, energy_between
from gpuscope.measure.statistics import Interval, median_interval
from gpuscope.run import Measurement, Run
from gpuscope.timeline.types import Timeline

LEAST_INTERVALS = 5
"""Steps without the profiler that are needed to take their median for the step time."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a session saw besides the trace.

    Attributes:
        name: of the run.
        accelerator: the device that the program used.
        intervals_s: steps without the profiler, boundary to boundary on the host.
        warmup_steps: steps before the recording.
        profiled_step_s: mean step under the profiler.
        readings: of the sensor, first and last count.
        notes: sentences for the user.
        history: the allocator's snapshot with its history; None without.
    """

    name: str
    accelerator: Accelerator
    intervals_s: Sequence[float] = ()
    warmup_steps: int = 0
    profiled_step_s: float | None = None
    readings: Sequence[Reading] = ()
    notes: Sequence[str] = ()
    history: Mapping[str, Any] | None = None


def run_of_trace(trace: Path, seen: Seen) -> Run:
    """Read the trace and return the run."""
    from gpuscope.timeline.kineto import read_trace

    return run_of_timeline(own_timeline(read_trace(trace), seen.accelerator), seen)


def run_of_timeline(timeline: Timeline, seen: Seen) -> Run:
    """Return the run of a timeline that has its step windows."""
    interval = _step_time(timeline, seen)
    step_s = interval.median
    accelerator = seen.accelerator
    device = accelerator.catalogue_device()
    span = energy_between(seen.readings[0], seen.readings[-1]) if len(seen.readings) > 1 else None
    peak = accelerator.peak_allocated_bytes()
    analysis = with_energy(measured_analysis(timeline, step_s, device), span, step_s, device)
    return Run(
        name=seen.name, target=device.name if device else accelerator.name,
        device_id=device.id if device else "", origin="measured", step_time_s=step_s,
        step_time_interval_s=(interval.low, interval.high),
        device_busy_s=busy_s(timeline, step_s, accelerator),
        host_busy_s=None, peak_memory_bytes=peak,
        reserved_memory_bytes=accelerator.peak_reserved_bytes(),
        energy_j=None if span is None else span.average_w * step_s,
        fits=None if device is None or peak is None else True, timeline=timeline,
        analysis=analysis, ranks=device_ranks(timeline) or (0,),
        assumptions=tuple(dict.fromkeys(_sentences(seen, timeline))),
        origins=_origins(timeline, peak, span is not None),
        measurement=Measurement(
            confidence=interval.confidence, blocks_s=tuple(seen.intervals_s), steps_per_block=1,
            warmup_steps=seen.warmup_steps, settled_after=None,
            profiled_steps=len(timeline.steps), profiled_step_s=seen.profiled_step_s,
            energy_window_s=span.seconds if span else None,
            average_w=span.average_w if span else None,
            energy_uncertainty_j=span.uncertainty_j / span.seconds * step_s if span else None,
            machine=machine_facts(accelerator),
        ),
    )  # fmt: skip


def _step_time(timeline: Timeline, seen: Seen) -> Interval:
    """The median of the steps without the profiler; where there are too few, that of the trace."""
    if len(seen.intervals_s) >= LEAST_INTERVALS:
        return median_interval(seen.intervals_s)
    lengths = [(step.end_ns - step.start_ns) * 1e-9 for step in timeline.steps]
    if lengths:
        return Interval(statistics.median(lengths), min(lengths), max(lengths), None)
    ranks = device_ranks(timeline)
    window = choose_window(timeline, ranks[0]) if ranks else None
    length = window.length_ns * 1e-9 if window else math.nan
    return Interval(length, length, length, None)


def _sentences(seen: Seen, timeline: Timeline) -> list[str]:
    said = list(seen.notes)
    if len(seen.intervals_s) < LEAST_INTERVALS:
        said.append(
            "Too few steps ran without the profiler: the step time is that of the recorded ones."
        )
    return [*said, *timeline.notes]


def _origins(timeline: Timeline, peak: int | None, energy: bool) -> dict[str, str]:
    known = {
        "step_time_s": True, "device_busy_s": not math.isnan(device_busy_s(timeline)),
        "peak_memory_bytes": peak is not None, "reserved_memory_bytes": peak is not None,
        "energy_j": energy,
    }  # fmt: skip
    return {name: "measured" for name, there in known.items() if there}
