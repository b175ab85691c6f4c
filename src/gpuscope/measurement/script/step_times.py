"""The step time of a program: by the host's clock, the device's, or the recording itself."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from gpuscope.analysis.window import COMMUNICATION, choose_window, device_ranks, device_work
from gpuscope.document.quantities import Seconds
from gpuscope.document.text import Text
from gpuscope.measurement.script.step_clock import StepClock
from gpuscope.measurement.statistics import Interval, median_interval, settled_from
from gpuscope.timeline.types import Timeline

LEAST_INTERVALS = 5
"""Steps without the profiler that are needed to take their median for the step time."""

AFTER_GAP = 2
"""Steps right after the recording that are not timed."""

HOST_SLACK = 0.02
"""The host's intervals count where they are longer than the device's by more than this share."""

OWN_WORK_SLACK = 0.05
"""A device cannot work longer than a step lasts; kernels may be this much slower when recorded."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Steps without the profiler, in seconds.

    Attributes:
        host_s: boundary to boundary on the host.
        device_s: the same as the device came by; empty where not known.
    """

    host_s: tuple[float, ...] = ()
    device_s: tuple[float, ...] = ()

    @property
    def chosen_s(self) -> tuple[float, ...]:
        """The intervals that are the step time.

        The device's, where they are known: a host may run ahead. The host's where they are longer:
        then it is not the device's current stream that does the work.
        """
        if len(self.device_s) < LEAST_INTERVALS:
            return self.host_s
        host, device = statistics.median(self.host_s), statistics.median(self.device_s)
        return self.host_s if host > (1 + HOST_SLACK) * device else self.device_s

    @property
    def sentence(self) -> Text:
        """Where the steps were timed."""
        chosen = self.chosen_s
        if not chosen:
            return Text("")
        if chosen is not self.device_s:
            return Text("Steps were timed on the host, from boundary to boundary.")
        host, device = statistics.median(self.host_s), statistics.median(chosen)
        if host < (1 - OWN_WORK_SLACK) * device:
            return Text(
                "Steps were timed on the device, by events at their boundaries: the host runs "
                "ahead of it and issues a step in {host}.",
                host=Seconds(host),
            )
        return Text("Steps were timed on the device, by events at their boundaries.")


def intervals(before: StepClock, after: StepClock, quiet: int | None, on_device: bool) -> Intervals:
    """Return the steps timed before and after a recording.

    Args:
        before: boundaries before it; of them the settled part is kept.
        after: boundaries after it; the first steps are left out.
        quiet: boundaries before which nothing of ours disturbed; None if nothing did at all.
        on_device: the program's device is another than the host's processor.
    """
    first = before.host_intervals_s()[: None if quiet is None else max(0, quiet - 1)]
    host = (*_settled(first), *after.host_intervals_s()[AFTER_GAP:])
    if not on_device:
        return Intervals(host)
    own = [s for s in before.device_intervals_s()[: len(first)] if s is not None]
    later = [s for s in after.device_intervals_s()[AFTER_GAP:] if s is not None]
    return Intervals(host, (*_settled(own), *later))


def _settled(times_s: Sequence[float]) -> Sequence[float]:
    start = settled_from(times_s)
    return times_s[start:] if start is not None else ()


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step time, the samples that it is of, and what to say of it."""

    interval: Interval
    samples_s: tuple[float, ...]
    sentences: tuple[str, ...]


def step_time(timeline: Timeline, timed: Intervals, on_device: bool) -> StepTime:
    """Return the median of the steps without the profiler; else that of the recorded steps.

    The recorded ones count where too few others were timed, or where the device's own work
    (without communication, which may be waiting) does not fit into the time of the others: their
    boundaries then say nothing of the device.
    """
    samples = timed.chosen_s
    recorded = _recorded(timeline)
    if len(samples) < LEAST_INTERVALS:
        said = Text(
            "Too few steps ran without the profiler: the step time is that of the recorded ones."
        )
        return StepTime(recorded, samples, (said,))
    found = median_interval(samples)
    work_s = _own_work_s(timeline) if on_device else None
    if work_s is not None and work_s > (1 + OWN_WORK_SLACK) * found.median:
        said = Text(
            "Boundaries lie {apart} apart, but the device needs {work} for the work of a step: the "
            "step time is that of the recorded steps.",
            apart=Seconds(found.median),
            work=Seconds(work_s),
        )
        return StepTime(recorded, samples, (said,))
    return StepTime(found, samples, (timed.sentence,))


def _recorded(timeline: Timeline) -> Interval:
    """Median, shortest and longest of the first rank's recorded steps."""
    ranks = device_ranks(timeline)
    rank = ranks[0] if ranks else min((step.rank for step in timeline.steps), default=0)
    lengths = [(s.end_ns - s.start_ns) * 1e-9 for s in timeline.steps if s.rank == rank]
    if lengths:
        return Interval(statistics.median(lengths), min(lengths), max(lengths), None)
    window = choose_window(timeline, rank)
    length = window.length_ns * 1e-9 if window else math.nan
    return Interval(length, length, length, None)


def _own_work_s(timeline: Timeline) -> float | None:
    """Seconds a step that the first rank's device works on more than communication."""
    ranks = device_ranks(timeline)
    window = choose_window(timeline, ranks[0]) if ranks else None
    if window is None:
        return None
    work = device_work(timeline, ranks[0], window)
    own_ns = int(work.attributed_ns[work.kind != COMMUNICATION].sum())
    return own_ns * 1e-9 / window.steps
