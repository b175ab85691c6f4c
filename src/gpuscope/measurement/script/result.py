"""From the trace of a program's steps, and the times of the others, to a `Run`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuscope.analysis.window import device_ranks
from gpuscope.document.quantities import Seconds
from gpuscope.document.text import Text
from gpuscope.measurement.accelerator import Accelerator, machine_facts
from gpuscope.measurement.assemble import busy_s, device_busy_s, measured_analysis, with_energy
from gpuscope.measurement.profiling import own_timeline
from gpuscope.measurement.script.step_times import OWN_WORK_SLACK, Intervals, StepTime, step_time
from gpuscope.measurement.sensors import Reading, energy_between
from gpuscope.run import Measurement, Run
from gpuscope.timeline.types import Timeline


@dataclass(frozen=True, slots=True)
class Seen:
    """What a session saw besides the trace.

    Attributes:
        name: of the run.
        accelerator: the device that the program used.
        timed: steps without the profiler.
        warmup_steps: steps before the recording.
        profiled_step_s: mean step under the profiler.
        readings: of the sensor, first and last count.
        notes: sentences for the user.
        history: the allocator's snapshot with its history; None without.
    """

    name: str
    accelerator: Accelerator
    timed: Intervals = field(default_factory=Intervals)
    warmup_steps: int = 0
    profiled_step_s: float | None = None
    readings: Sequence[Reading] = ()
    notes: Sequence[str] = ()
    history: Mapping[str, Any] | None = None


def run_of_trace(trace: Path, seen: Seen, most: int | None = None) -> Run:
    """Read the trace and return the run of its steady steps, of the last `most` if given."""
    from gpuscope.timeline.kineto import read_trace

    return run_of_timeline(own_timeline(read_trace(trace), seen.accelerator, most), seen)


def run_of_timeline(timeline: Timeline, seen: Seen) -> Run:
    """Return the run of a timeline that has its step windows."""
    accelerator = seen.accelerator
    time = step_time(timeline, seen.timed, bool(accelerator.is_gpu))
    interval, step_s = time.interval, time.interval.median
    found_s = busy_s(timeline, step_s, accelerator)
    capped = found_s > step_s
    device = accelerator.catalogue_device()
    span = energy_between(seen.readings[0], seen.readings[-1]) if len(seen.readings) > 1 else None
    peak = accelerator.peak_allocated_bytes()
    analysis = with_energy(measured_analysis(timeline, step_s, device), span, step_s, device)
    return Run(
        name=seen.name,
        target=device.name if device else accelerator.name,
        device_id=device.id if device else "",
        origin="measured",
        step_time_s=step_s,
        step_time_interval_s=(interval.low, interval.high),
        device_busy_s=step_s if capped else found_s,
        host_busy_s=None,
        peak_memory_bytes=peak,
        reserved_memory_bytes=accelerator.peak_reserved_bytes(),
        energy_j=None if span is None else span.average_w * step_s,
        fits=None if device is None or peak is None else True,
        timeline=timeline,
        analysis=analysis,
        ranks=device_ranks(timeline) or (0,),
        assumptions=tuple(dict.fromkeys(_sentences(seen, timeline, time, found_s))),
        origins=_origins(timeline, peak, span is not None),
        measurement=Measurement(
            confidence=interval.confidence,
            blocks_s=time.samples_s,
            steps_per_block=1,
            warmup_steps=seen.warmup_steps,
            settled_after=None,
            profiled_steps=_steps_of_a_rank(timeline),
            profiled_step_s=seen.profiled_step_s,
            energy_window_s=span.seconds if span else None,
            average_w=span.average_w if span else None,
            energy_uncertainty_j=span.uncertainty_j / span.seconds * step_s if span else None,
            machine=machine_facts(accelerator),
        ),
    )


def _steps_of_a_rank(timeline: Timeline) -> int:
    """Most steps that one rank recorded."""
    ranks = [step.rank for step in timeline.steps]
    return max((ranks.count(rank) for rank in set(ranks)), default=0)


def _sentences(seen: Seen, timeline: Timeline, time: StepTime, found_s: float) -> list[str]:
    said = [*seen.notes, *time.sentences]
    step_s = time.interval.median
    if found_s > (1 + OWN_WORK_SLACK) * step_s:
        said.append(
            Text(
                "Under the profiler the device is busy {busy} of a step, longer than a step takes "
                "without it ({step}): collectives wait longer for slower hosts there.",
                busy=Seconds(found_s),
                step=Seconds(step_s),
            )
        )
    return [*said, *timeline.notes]


def _origins(timeline: Timeline, peak: int | None, energy: bool) -> dict[str, str]:
    known = {
        "step_time_s": True,
        "device_busy_s": not math.isnan(device_busy_s(timeline)),
        "peak_memory_bytes": peak is not None,
        "reserved_memory_bytes": peak is not None,
        "energy_j": energy,
    }
    return {name: "measured" for name, there in known.items() if there}
