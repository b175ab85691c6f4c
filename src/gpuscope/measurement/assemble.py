"""Put what was measured together into a `Run`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from gpuscope.analysis.analyze import analyze
from gpuscope.analysis.types import Analysis, Energy, MemoryStory
from gpuscope.analysis.window import SYNC, choose_window, device_ranks, device_work, rank_rows
from gpuscope.document.quantities import Number, Seconds
from gpuscope.document.text import Text
from gpuscope.measurement.accelerator import Accelerator, machine_facts
from gpuscope.measurement.blocks import Blocks
from gpuscope.measurement.memory import PeakMemory
from gpuscope.measurement.sensors import EnergySpan, Reading, Sensor, energy_between
from gpuscope.measurement.warmup import WarmUp
from gpuscope.run import Measurement, Run
from gpuscope.timeline.types import Events, Timeline

if TYPE_CHECKING:
    from gpuscope.hardware import Device
    from gpuscope.program.workload import Workload

NO_EVENTS = Timeline((), (), Events(*(np.zeros(0, np.int64) for _ in range(8))), origin="measured")


@dataclass(slots=True)
class Findings:
    """What has been measured so far; filled in order."""

    sensor: Sensor | None = None
    notes: list[str] = field(default_factory=list)
    warmup: WarmUp | None = None
    blocks: Blocks | None = None
    host_issue_s: float | None = None
    peak_bytes: int | None = None
    reserved_bytes: int | None = None
    timeline: Timeline | None = None
    profiled_step_s: float | None = None
    memory: PeakMemory | None = None
    interrupted: bool = False


def assemble(workload: Workload, accelerator: Accelerator, found: Findings) -> Run:
    """Return the run; `found.warmup` and `found.blocks` must be there."""
    assert found.warmup is not None
    assert found.blocks is not None
    interval = found.blocks.interval
    step_s = interval.median
    device = accelerator.catalogue_device()
    timeline = found.timeline or NO_EVENTS
    span = _energy(found.blocks.readings)
    analysis = measured_analysis(timeline, step_s, device, found.memory, found.peak_bytes)
    energy_j = None if span is None else span.average_w * step_s
    analysis = with_energy(analysis, span, step_s, device)
    fits = None if device is None or found.peak_bytes is None else True
    return Run(
        name=workload.name,
        target=device.name if device else accelerator.name,
        device_id=device.id if device else "",
        origin="measured",
        step_time_s=step_s,
        step_time_interval_s=(interval.low, interval.high),
        device_busy_s=busy_s(timeline, step_s, accelerator),
        host_busy_s=_host_busy_s(found.host_issue_s, timeline),
        peak_memory_bytes=found.peak_bytes,
        reserved_memory_bytes=found.reserved_bytes,
        energy_j=energy_j,
        fits=fits,
        timeline=timeline,
        analysis=analysis,
        ranks=device_ranks(timeline) or (0,),
        assumptions=tuple(dict.fromkeys(_sentences(found, timeline, step_s))),
        origins=_origins(found, timeline, energy_j),
        samples=workload.samples,
        tokens=workload.tokens,
        measurement=_measurement(found, span, accelerator, timeline),
    )


def measured_analysis(
    timeline: Timeline,
    step_s: float | None,
    device: Device | None,
    memory: PeakMemory | None = None,
    peak_bytes: int | None = None,
) -> Analysis:
    """Analyse a recorded timeline, with the memory's holders where they are known."""
    analysis = analyze(timeline, on=device, step_time_s=step_s)
    story = analysis.memory
    if story is None or memory is None:
        return analysis
    return replace(analysis, memory=_story(story, memory, peak_bytes))


def _story(story: MemoryStory, memory: PeakMemory, peak_bytes: int | None) -> MemoryStory:
    at_peak = dict(memory.at_peak)
    peak = max(memory.peak_bytes, peak_bytes or 0)
    if peak > memory.peak_bytes:  # blocks are sometimes larger than their request, rounded
        at_peak["other"] = peak - memory.peak_bytes
    return replace(story, peak_bytes=peak, at_peak=at_peak, holders=memory.holders)


def with_energy(
    analysis: Analysis, span: EnergySpan | None, step_s: float, device: Device | None
) -> Analysis:
    """Put the measured energy in the place of an estimate."""
    price = None if device is None else device.price_usd_per_hour
    cost = None if price is None else price / 3600 * step_s
    if span is None:
        known = analysis.energy
        source = Text("not available: no energy counter, or less than a second of it")
        return replace(
            analysis,
            energy=None if known is None else Energy(None, None, None, None, None, cost, source),
        )
    total = span.average_w * step_s
    source = Text("the device's counter over {span}", span=Seconds(span.seconds))
    return replace(analysis, energy=Energy(total, None, None, None, span.average_w, cost, source))


def device_busy_s(timeline: Timeline) -> float:
    """Return the union of the first rank's device work per step; NaN without device work."""
    ranks = device_ranks(timeline)
    window = choose_window(timeline, ranks[0]) if ranks else None
    if window is None:
        return math.nan
    return device_work(timeline, ranks[0], window).busy.total_ns * 1e-9 / window.steps


def busy_s(timeline: Timeline, step_s: float, accelerator: Accelerator) -> float:
    """Device work of a step. On a CPU the profiler slows the work itself: at most the step."""
    found = device_busy_s(timeline)
    return found if accelerator.is_gpu else min(found, step_s)


def _host_busy_s(issue_s: float | None, timeline: Timeline) -> float | None:
    """The time to issue a step, less what it waited for the device in the meantime."""
    if issue_s is None:
        return None
    ranks = device_ranks(timeline)
    window = choose_window(timeline, ranks[0]) if ranks else None
    if window is None:
        return issue_s
    events = timeline.events
    rows = rank_rows(timeline, ranks[0]) & (events.kind == SYNC)
    rows &= (events.start_ns >= window.start_ns) & (events.end_ns <= window.end_ns)
    waited_s = float(events.duration_ns[rows].sum()) * 1e-9 / window.steps
    return max(0.0, issue_s - waited_s)


def _energy(readings: Sequence[Reading]) -> EnergySpan | None:
    return energy_between(readings[0], readings[-1]) if len(readings) > 1 else None


def _origins(found: Findings, timeline: Timeline, energy_j: float | None) -> dict[str, str]:
    known = {
        "step_time_s": True,
        "device_busy_s": len(timeline.events) > 0,
        "host_busy_s": found.host_issue_s is not None,
        "peak_memory_bytes": found.peak_bytes is not None,
        "reserved_memory_bytes": found.reserved_bytes is not None,
        "energy_j": energy_j is not None,
    }
    return {name: "measured" for name, there in known.items() if there}


def _sentences(found: Findings, timeline: Timeline, step_s: float) -> list[str]:
    assert found.warmup is not None
    assert found.blocks is not None
    said = list(found.notes)
    if found.interrupted:
        said.append(Text("Interrupted: what was measured until then is shown."))
    if found.warmup.settled_after is None:
        steps = len(found.warmup.times_s)
        said.append(
            Text(
                "The step time had not settled after {steps} steps: it may still change.",
                steps=steps,
            )
        )
    if found.blocks.interval.confidence is None:
        said.append(Text("Only one block was timed: there is no interval."))
    profiled_s = found.profiled_step_s
    if profiled_s is not None and profiled_s > 1.02 * step_s:
        more = profiled_s / step_s - 1
        said.append(
            Text(
                "Under the profiler a step takes {more} longer; idle times of the timeline are "
                "scaled to the step time without it.",
                more=Number(more, ".0%"),
            )
        )
    said += list(timeline.notes)
    return said


def _measurement(
    found: Findings, span: EnergySpan | None, accelerator: Accelerator, timeline: Timeline
) -> Measurement:
    assert found.warmup is not None
    assert found.blocks is not None
    warmup, blocks = found.warmup, found.blocks
    last = blocks.readings[-1] if blocks.readings else None
    facts = machine_facts(accelerator)
    if found.sensor is not None and found.sensor.info.driver:
        facts["driver"] = found.sensor.info.driver
    window_s = blocks.interval.median
    return Measurement(
        confidence=blocks.interval.confidence,
        blocks_s=blocks.means_s,
        steps_per_block=blocks.steps_per_block,
        warmup_steps=len(warmup.times_s),
        settled_after=warmup.settled_after,
        first_step_s=warmup.times_s[0],
        first_step_allocations=warmup.device_allocations[0] if warmup.device_allocations else None,
        compiled_graphs=warmup.compiled_graphs,
        host_issue_s=found.host_issue_s,
        profiled_steps=len(timeline.steps),
        profiled_step_s=found.profiled_step_s,
        energy_window_s=span.seconds if span else None,
        average_w=span.average_w if span else None,
        energy_uncertainty_j=span.uncertainty_j / span.seconds * window_s if span else None,
        sm_clock_hz=last.sm_clock_hz if last else None,
        temperature_c=last.temperature_c if last else None,
        throttle_reasons=_reasons(blocks.readings),
        throttled_share=_throttled(blocks.readings),
        machine=facts,
        interrupted=found.interrupted,
    )


def _reasons(readings: Sequence[Reading]) -> tuple[str, ...] | None:
    """Every reason seen after a block; None if the sensor does not tell any."""
    known = [r.throttle_reasons for r in readings[1:] if r.throttle_reasons is not None]
    return tuple(dict.fromkeys(name for reasons in known for name in reasons)) if known else None


def _throttled(readings: Sequence[Reading]) -> dict[str, float] | None:
    """Share of the time between first and last reading that the clock was held down."""
    if len(readings) < 2:
        return None
    first, last = readings[0], readings[-1]
    seconds = last.time_s - first.time_s
    if first.throttled_s is None or last.throttled_s is None or seconds <= 0:
        return None
    return {
        name: min(1.0, max(0.0, (last.throttled_s[name] - held) / seconds))
        for name, held in first.throttled_s.items()
        if name in last.throttled_s
    }
