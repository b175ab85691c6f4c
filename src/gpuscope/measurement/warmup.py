"""Warm up until the step time has settled: detected, not assumed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from gpuscope.document.text import Text
from gpuscope.measurement.accelerator import Accelerator
from gpuscope.measurement.failure import run_workload
from gpuscope.measurement.statistics import settled_from

LEAST_STEPS = 6
MOST_STEPS = 400
MOST_SECONDS = 60.0
"""Warm-up ends after so many steps or seconds, settled or not (never before 2 steps)."""

QUIET_STEPS = 3
"""So many last steps must have allocated no device memory and compiled nothing."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What the first steps did.

    Attributes:
        times_s: of each, the device waited for after every one.
        settled_after: first steady step; None if the time had not settled.
        device_allocations: how often each asked the device for memory; None if not counted.
        compiled_graphs: graphs that torch.compile made meanwhile; None without it.
    """

    times_s: tuple[float, ...]
    settled_after: int | None
    device_allocations: tuple[int, ...] | None
    compiled_graphs: int | None

    @property
    def steady_s(self) -> float:
        """The steady step time as far as it is known: the least of the last steps."""
        return min(self.times_s[len(self.times_s) // 2 :])


def warm_up(
    step: Callable[[], object], accelerator: Accelerator, *, most_s: float = MOST_SECONDS
) -> WarmUp:
    """Run steps, each waited for, until their time has settled.

    Raises:
        WorkloadError, OutOfDeviceMemoryError: a step failed.
    """
    times: list[float] = []
    asked: list[int] = []
    compiled_before = compiled_graphs()
    compiled = [compiled_before or 0]
    counted = accelerator.device_allocations()
    begin = time.perf_counter()
    settled = None
    while True:
        start = time.perf_counter()
        run_workload(Text("step {number}", number=len(times) + 1), step)
        run_workload(Text("step {number}", number=len(times) + 1), accelerator.synchronize)
        now = time.perf_counter()
        times.append(now - start)
        compiled.append(compiled_graphs() or 0)
        if counted is not None:
            total = accelerator.device_allocations() or 0
            asked.append(total - counted)
            counted = total
        settled = settled_from(times, least=LEAST_STEPS)
        if settled is not None and not quiet(asked, compiled):
            settled = None
        if settled is not None or len(times) >= MOST_STEPS:
            break
        if now - begin + times[-1] > most_s and len(times) >= 2:
            break
    graphs = None if compiled_graphs() is None else compiled[-1] - (compiled_before or 0)
    return WarmUp(tuple(times), settled, tuple(asked) if counted is not None else None, graphs)


def quiet(asked: list[int], compiled: list[int]) -> bool:
    """Return whether the last steps neither asked for device memory nor compiled."""
    recent = compiled[-QUIET_STEPS - 1 :]
    return not any(asked[-QUIET_STEPS:]) and recent[0] == recent[-1]


def compiled_graphs() -> int | None:
    """Return how many graphs torch.compile has made in this process; None if it is not in use."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return None
    return int(dynamo.counters["stats"]["unique_graphs"])
