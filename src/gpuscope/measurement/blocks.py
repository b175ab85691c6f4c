"""Time a step without a profiler: blocks of steps between two synchronisations.

Inside a block nothing but the user's step runs: the clock is read and the device waited for once a
block, so what measuring adds is one synchronisation in a quarter of a second
(`benchmarks/measure_overhead.py` measures it against a bare loop).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from gpuscope.document.text import Text
from gpuscope.measurement.accelerator import Accelerator
from gpuscope.measurement.failure import run_workload
from gpuscope.measurement.sensors import Reading, Sensor
from gpuscope.measurement.statistics import Interval, median_interval, settled_from

BLOCKS = 12
"""Blocks that the asked seconds are divided into."""

LEAST_BLOCKS = 6
"""Fewest blocks: with six the extremes hold the median with 96.9 %."""

WIDTH = 0.02
"""Blocks are added until the interval is this narrow, relative to the median ..."""

EXTENSION = 2.0
"""... or so many times the asked seconds are over."""

_LEAST_HOST_STEPS = 5


@dataclass(frozen=True, slots=True)
class Blocks:
    """What was timed.

    Attributes:
        means_s: mean step time of each block, in order.
        steps_per_block: steps of a block.
        dropped: leading blocks that were slower or faster than the rest, left out of `interval`.
        interval: median of the blocks' means with its confidence interval.
        readings: of the sensor, before the first block and after each.
        interrupted: the user stopped it.
    """

    means_s: tuple[float, ...]
    steps_per_block: int
    dropped: int
    interval: Interval
    readings: tuple[Reading, ...]
    interrupted: bool = False


def time_blocks(
    step: Callable[[], object],
    accelerator: Accelerator,
    *,
    seconds: float,
    rough_s: float,
    confidence: float = 0.95,
    sensor: Sensor | None = None,
) -> Blocks:
    """Time steps until their median is known.

    Args:
        seconds: about how long; at least six blocks are timed however long they take, and up to
            twice as long where the interval is still wide.
        rough_s: about how long a step takes.
        confidence: of the interval.
        sensor: read between blocks, outside of what is timed.

    Raises:
        WorkloadError, OutOfDeviceMemoryError: a step failed.
        KeyboardInterrupt: before the first block was over.
    """
    per_block = max(1, math.ceil(seconds / BLOCKS / rough_s))
    means: list[float] = []
    readings: list[Reading] = []
    interrupted = False
    run_workload(Text("the step"), accelerator.synchronize)
    begin = time.perf_counter()
    try:
        if sensor is not None:
            readings.append(sensor.read())
        while not _enough(means, time.perf_counter() - begin, seconds, confidence):
            means.append(_block(step, accelerator, per_block) / per_block)
            if sensor is not None:
                readings.append(sensor.read())
    except KeyboardInterrupt:
        if not means:
            raise
        interrupted = True
    dropped = _dropped(means)
    return Blocks(
        tuple(means),
        per_block,
        dropped,
        median_interval(means[dropped:], confidence),
        tuple(readings),
        interrupted,
    )


def host_issue_s(step: Callable[[], object], accelerator: Accelerator, budget_s: float) -> float:
    """Return the median time from the begin of a step to the return of its last call.

    The device is idle at the begin, so that the host waits for nothing but what the step itself
    waits for.
    """
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < _LEAST_HOST_STEPS:
        run_workload(Text("the step"), accelerator.synchronize)
        start = time.perf_counter()
        run_workload(Text("the step"), step)
        times.append(time.perf_counter() - start)
        if time.perf_counter() - begin > budget_s:
            break
    run_workload(Text("the step"), accelerator.synchronize)
    return sorted(times)[len(times) // 2]


def _block(step: Callable[[], object], accelerator: Accelerator, steps: int) -> float:
    def run() -> float:
        start = time.perf_counter()
        for _ in range(steps):
            step()
        accelerator.synchronize()
        return time.perf_counter() - start

    elapsed: float = run_workload(Text("the step"), run)
    return elapsed


def _enough(means: list[float], spent_s: float, seconds: float, confidence: float) -> bool:
    if len(means) < LEAST_BLOCKS:
        return False
    if spent_s < seconds:
        return False
    kept = means[_dropped(means) :]
    interval = median_interval(kept, confidence)
    narrow = interval.high - interval.low <= WIDTH * interval.median
    reached = interval.confidence is not None and interval.confidence >= confidence
    return (narrow and reached) or spent_s >= EXTENSION * seconds


def _dropped(means: list[float]) -> int:
    """Leading blocks of another speed (clocks that still rose); at most half."""
    first = settled_from(means)
    return min(first or 0, len(means) // 2)
