"""The step time that breakdowns add up to, and how the timeline's own times are fitted to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

OUTSIDE = "not in the timeline"
"""Idle cause of time that a step takes beyond what its timeline shows, where the timeline itself
shows no idle time to scale."""


CHANCE = "waiting by chance"
"""Idle cause of a job's waiting for the slowest of its ranks, which vary by chance: part of its
step that no timeline of equal ranks shows (`gpuscope.cost.skew`)."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """One step: device time plus idle time by cause; adds up to `step_s`.

    Attributes:
        step_s: the step.
        busy_s: device time.
        idle_s: idle time by cause, without causes that do not occur.
        scale: factor on all device times of the timeline (1 unless a known step is shorter than
            the timeline's device work).
    """

    step_s: float
    busy_s: float
    idle_s: Mapping[str, float]
    scale: float


def fit_step(
    busy_s: float,
    idle_s: Mapping[str, float],
    step_time_s: float | None = None,
    chance_s: float = 0.0,
) -> StepTime:
    """Fit the device and idle time of a timeline's step to the step time that is known.

    Recording slows the host and so adds idle time: idle is scaled, in proportion over its causes,
    so that the sum is the known step. Where device work alone is longer than that, all device
    times are scaled instead and no idle time is left. Where the timeline shows no idle time, what
    is missing gets the cause "not in the timeline". `chance_s` of a known step are waiting by
    chance, a cause of its own; the rest is fitted.
    """
    idle = {cause: time for cause, time in idle_s.items() if time > 0}
    total = sum(idle.values())
    if step_time_s is not None and 0 < chance_s < step_time_s:
        rest = fit_step(busy_s, idle_s, step_time_s - chance_s)
        return replace(rest, step_s=step_time_s, idle_s={**rest.idle_s, CHANCE: chance_s})
    if step_time_s is None or step_time_s <= 0:
        return StepTime(busy_s + total, busy_s, idle, 1.0)
    if busy_s >= step_time_s:
        scale = step_time_s / busy_s
        return StepTime(step_time_s, step_time_s, {}, scale)
    room = step_time_s - busy_s
    if total <= 0:
        return StepTime(step_time_s, busy_s, {OUTSIDE: room}, 1.0)
    return StepTime(
        step_time_s, busy_s, {cause: time * room / total for cause, time in idle.items()}, 1.0
    )
