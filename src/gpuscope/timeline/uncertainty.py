"""How sure the predicted step time is: an 80 % interval by simulating other hosts and devices.

Three kinds of error are kept apart.

Host. All host costs share one factor, since a slower CPU is slower at everything:
from 1 - `CostedProgram.host_faster` to 1 + `CostedProgram.host_spread`.

Device. Every kernel has its own interval. Launches of the same kernel err together (a model
repeats its few shapes in every layer), different kernels err independently and average out, and
the kernels of one kind also share a systematic error, `device_spread` or what programs showed of
the kind (`cost.kind_spread`), larger upwards than downwards. With half-widths a_i,
launches n_i and the total time D_k of kind k, its relative error is

    e_k = sqrt( (sqrt(sum (n_i a_i)^2) / D_k)^2 + shared_k^2 )

and the kinds are independent of each other; what all kernels share, `common_spread` (constants
found on another device), does not average out. So the device time as a whole errs by

    e = sqrt( sum (e_k D_k)^2 / (sum D_k)^2 + common_spread^2 ).

Links. Collectives err in the same way, for themselves: what is wrong with a fabric has nothing to
do with what is wrong with a product.

The step is then simulated with the host slower and faster, with the device slower and faster, and
with the links (four walks, or six; no events). Whichever does not set the pace hardly moves the
step, so the interval follows the one that does: with t the point estimate,

    low  = t - sqrt( (t - t_host_low)^2  + (t - t_device_low)^2 + (t - t_link_low)^2 ),

and likewise for high. Widths are summed in quadrature since the three err independently. Of several
ranks all hosts, all devices, or all links are slower together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import hypot, sqrt
from typing import Literal

import numpy as np

from gpuscope.cost.kind_spread import spread_of
from gpuscope.cost.types import CostedProgram, Kernel
from gpuscope.timeline.contention import Beside, Overlap
from gpuscope.timeline.schedule import Schedule, build_schedule
from gpuscope.timeline.simulate import contended_walk
from gpuscope.timeline.walk import Pace, Walk, walk_steps

Source = Literal["host", "device", "link"]

LEAST_FACTOR = 0.05
"""No host, device or link is taken to be more than 20 times faster than predicted."""


def step_time_interval(
    costed: CostedProgram, steps: int = 3, *, overlap: Overlap | None = None
) -> tuple[float, float]:
    """80 % interval (low_s, high_s) of the steady step time; contains the point estimate.

    Wider spreads never give a narrower interval. Costs five walks over the step; seven and those
    of the contention where there are collectives.

    Args:
        costed: the step.
        steps: how many to walk at least.
        overlap: as `simulate` takes it.

    Raises:
        InvalidValueError: `steps` is less than 1.
    """
    schedule = build_schedule(costed)
    walk, used = contended_walk(costed, schedule, steps, overlap)
    return walked_interval(costed, schedule, walk, used, steps)


def walked_interval(
    costed: CostedProgram, schedule: Schedule, walk: Walk, used: Beside, steps: int = 3
) -> tuple[float, float]:
    """As `step_time_interval`, of a step that was walked before.

    Args:
        costed: the step.
        schedule, walk, used: its schedule, and what `contended_walk` gave for it.
        steps: how many to walk at least, as was done there.
    """
    base = Pace(duration_s=used.duration_s, held_s=used.held_s)

    def period_s(source: Source, upwards: bool) -> float:
        pace = paced(base, costed, schedule, source, upwards)
        return walk_steps(
            schedule,
            costed.launch_latency_s,
            steps,
            host_scale=pace.host,
            device_scale=pace.device,
            duration_s=pace.duration_s,
            held_s=pace.held_s,
        ).period_s

    return interval_around(walk.period_s, sources_of([schedule]), period_s)


def sources_of(schedules: Sequence[Schedule]) -> tuple[Source, ...]:
    """What can err in these steps."""
    talks = any(schedule.links for schedule in schedules)
    return ("host", "device", "link") if talks else ("host", "device")


def interval_around(
    point_s: float,
    sources: Sequence[Source],
    period_s: Callable[[Source, bool], float],
    skew_s: tuple[float, float] = (0.0, 0.0),
) -> tuple[float, float]:
    """The interval around a period, by how each source of error moves it down and up."""
    lows = [period_s(source, False) for source in sources]
    highs = [period_s(source, True) for source in sources]
    down = sqrt(sum(max(0.0, point_s - low) ** 2 for low in lows) + skew_s[0] ** 2)
    up = sqrt(sum(max(0.0, high - point_s) ** 2 for high in highs) + skew_s[1] ** 2)
    return max(point_s - down, min(lows) * LEAST_FACTOR), point_s + up


def paced(
    pace: Pace, costed: CostedProgram, schedule: Schedule, source: Source, upwards: bool
) -> Pace:
    """The pace of a rank whose host, device or links are slower (upwards) or faster."""
    if source == "host":
        faster = costed.host_spread if costed.host_faster is None else costed.host_faster
        spread = costed.host_spread if upwards else -faster
        return replace(pace, host=pace.host * max(LEAST_FACTOR, 1 + spread))

    def half_width_s(kernel: Kernel) -> float:
        return kernel.high_s - kernel.duration_s if upwards else kernel.duration_s - kernel.low_s

    error = device_error(costed, half_width_s, links=source == "link", upwards=upwards)
    factor = 1 + error if upwards else max(LEAST_FACTOR, 1 - error)
    if source == "device":
        return replace(pace, device=pace.device * factor)
    talks = np.isin(np.array(schedule.queue, np.int64), list(schedule.links))
    times = schedule.duration_s if pace.duration_s is None else pace.duration_s
    return replace(pace, duration_s=np.where(talks, times * factor, times))


def device_error(
    costed: CostedProgram,
    half_width_s: Callable[[Kernel], float],
    *,
    links: bool | None = None,
    upwards: bool = True,
) -> float:
    """Relative 80 % half-width of the device time as a whole (formula in the module's text).

    Args:
        costed: the step.
        half_width_s: a kernel's own half-width; negative ones count as 0.
        links: only collectives (True), only what is none (False), or both (None).
        upwards: how much longer than predicted; else how much shorter.
    """
    launches: dict[int, int] = defaultdict(int)
    objects: dict[int, Kernel] = {}
    for item in costed.ops:
        for kernel in item.kernels:
            if links is None or (kernel.lane == "link") == links:
                launches[id(kernel)] += item.op.repeat
                objects[id(kernel)] = kernel
    count: dict[Kernel, int] = defaultdict(int)
    for identity, kernel in objects.items():
        count[kernel] += launches[identity]
    time_s: dict[str, float] = defaultdict(float)
    square_s2: dict[str, float] = defaultdict(float)
    for kernel, times in count.items():
        time_s[kernel.kind] += kernel.duration_s * times
        square_s2[kernel.kind] += (max(0.0, half_width_s(kernel)) * times) ** 2
    total_s = sum(time_s.values())
    if total_s <= 0:
        return 0.0
    variance_s2 = sum(
        square_s2[kind]
        + (spread_of(kind, costed.device_spread, upwards=upwards) * time_s[kind]) ** 2
        for kind in time_s
    )
    return hypot(sqrt(variance_s2) / total_s, costed.common_spread)
