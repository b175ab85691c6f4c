"""The walk over a schedule: host clock against device queues, step after step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.errors import InvalidValueError
from gpuscope.timeline.schedule import WAIT_ALL, Schedule

LAUNCH_QUEUE_DEPTH = 1024
"""Launches that a stream holds before the next launch call blocks. CUDA does not document it; about
1000 a stream were observed (Stack Overflow question 53970187, NVIDIA forum thread 68937)."""

STEADY_TOLERANCE = 1e-3
"""Two successive periods that differ by less than this fraction count as steady."""

EXTRA_STEPS = 3
"""How many steps beyond those asked for may be simulated to become steady."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Walk:
    """What walking a schedule step after step gave. Times in seconds from the first step's begin.

    Attributes:
        ends_s: completion of each step: the later of its host's and its device's end.
        host_begin_s: when the host began the last step.
        waited_s: per row of the last step, how long the host had waited in it up to and
            including the row; a row's host time is `host_begin_s` + static clock + this.
        start_s: per row, device start of the task (waits: begin of the wait).
        end_s: per row, device end of the task (waits: return of the wait).
    """

    ends_s: list[float]
    host_begin_s: float
    waited_s: Floats
    start_s: Floats
    end_s: Floats

    @property
    def period_s(self) -> float:
        """Duration of the last step, completion to completion."""
        return self.ends_s[-1] - (self.ends_s[-2] if len(self.ends_s) > 1 else 0.0)


def walk_steps(
    schedule: Schedule,
    latency_s: float,
    steps: int = 3,
    *,
    host_scale: float = 1.0,
    device_scale: float = 1.0,
) -> Walk:
    """Walk a schedule until its period is steady; the fast path without events.

    Args:
        schedule: the step.
        latency_s: from a launch call's end to the start on an idle device; a wait's return takes
            as long, since the signal makes the same way back.
        steps: how many steps at least.
        host_scale: factor on all host times.
        device_scale: factor on all device durations.

    Raises:
        InvalidValueError: `steps` is less than 1.
    """
    if steps < 1:
        raise InvalidValueError(
            f"Cannot simulate {steps} steps.", "At least one is needed.", "Pass steps=3."
        )
    state = _State(schedule, latency_s, host_scale, device_scale)
    ends: list[float] = []
    while len(ends) < steps or not (_steady(ends) or len(ends) >= steps + EXTRA_STEPS):
        ends.append(state.step())
    return Walk(
        ends_s=ends,
        host_begin_s=state.host_begin_s,
        waited_s=np.array(state.waited, np.float64),
        start_s=np.array(state.start, np.float64),
        end_s=np.array(state.end, np.float64),
    )


def _steady(ends: list[float]) -> bool:
    """Whether the last two periods agree; true where there are no two to compare."""
    if len(ends) < 3:
        return True
    last, before = ends[-1] - ends[-2], ends[-2] - ends[-3]
    return abs(last - before) <= STEADY_TOLERANCE * max(last, before)


class _State:
    """Clocks that carry over from step to step, in seconds."""

    def __init__(
        self, schedule: Schedule, latency_s: float, host_scale: float, device_scale: float
    ) -> None:
        self.rows = list(
            zip(
                (schedule.host_s * host_scale).tolist(),
                schedule.queue,
                (schedule.duration_s * device_scale).tolist(),
                schedule.gap_s.tolist(),
                schedule.launched,
                schedule.extra,
                strict=True,
            )
        )
        self.latency_s = latency_s
        self.host_step_s = schedule.host_step_s * host_scale
        self.clock_s = 0.0
        self.host_begin_s = 0.0
        self.queue_end = [0.0] * schedule.queues
        self.engine_end = [0.0] * schedule.engines
        self.launched: list[list[float]] = [[] for _ in range(schedule.queues)]
        self.waited: list[float] = []
        self.start: list[float] = []
        self.end = [0.0] * len(self.rows)

    def step(self) -> float:
        """Walk one step; returns when both its host and its device work are done.

        One pass over plain tuples: at tens of thousands of rows the cost of each line counts.
        """
        queue_end, launched, latency = self.queue_end, self.launched, self.latency_s
        base = self.host_begin_s = self.clock_s
        before, wait = self.end, 0.0
        start, end, waited = [], [], []
        for host, queue, duration, gap, launches, extra in self.rows:
            now = base + host + wait
            if queue < 0:
                done = max(queue_end, default=0.0) if queue == WAIT_ALL else queue_end[-2 - queue]
                start.append(now)
                if done > now - latency:
                    wait += done + latency - now
                    now = done + latency
                end.append(now)
                waited.append(wait)
                continue
            if launches:
                pending = launched[queue]
                if len(pending) >= LAUNCH_QUEUE_DEPTH:
                    room = pending[-LAUNCH_QUEUE_DEPTH]
                    if room > now:
                        wait += room - now
                        now = room
            begin = now + latency
            free = queue_end[queue] + gap
            if free > begin:
                begin = free
            if extra is not None:
                begin = self._after_extra(begin, extra, end, before)
                if extra[0] >= 0:
                    self.engine_end[extra[0]] = begin + duration
            if launches:
                pending.append(begin)
            queue_end[queue] = finish = begin + duration
            start.append(begin)
            end.append(finish)
            waited.append(wait)
        self.start, self.end, self.waited = start, end, waited
        self.clock_s = base + self.host_step_s + wait
        return max(self.clock_s, max(queue_end, default=0.0))

    def _after_extra(
        self,
        begin: float,
        extra: tuple[int, int, tuple[int, ...]],
        end: list[float],
        before: list[float],
    ) -> float:
        """The earliest start that also respects the copy engine, joined queue and writers."""
        engine, joined, writers = extra
        if engine >= 0:
            begin = max(begin, self.engine_end[engine])
        if joined >= 0:
            begin = max(begin, self.queue_end[joined])
        for row in writers:
            begin = max(begin, end[row] if row >= 0 else before[row])
        return begin
