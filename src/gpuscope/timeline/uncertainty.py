"""How sure the predicted step time is: an 80 % interval by simulating other hosts and devices.

Two kinds of error are kept apart.

Host. All host costs share one factor, since a slower CPU is slower at everything:
1 +- `CostedProgram.host_spread`.

Device. Every kernel has its own interval. Launches of the same kernel err together (a model
repeats its few shapes in every layer), different kernels err independently and average out, and
the kernels of one kind also share a systematic error, `device_spread`. With half-widths a_i,
launches n_i and the total time D_k of kind k, its relative error is

    e_k = sqrt( (sqrt(sum (n_i a_i)^2) / D_k)^2 + device_spread^2 )

and the kinds are independent of each other; what all kernels share, `common_spread` (constants
found on another device), does not average out. So the device time as a whole errs by

    e = sqrt( sum (e_k D_k)^2 / (sum D_k)^2 + common_spread^2 ).

The step is then simulated with the host slower and faster and with the device slower and faster
(four walks, no events). Whichever does not set the pace hardly moves the step, so the interval
follows the one that does: with t the point estimate,

    low  = t - sqrt( (t - t_host_low)^2  + (t - t_device_low)^2 ),

and likewise for high. Widths are summed in quadrature since host and device err independently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from math import hypot, sqrt

from gpuscope.cost.types import CostedProgram, Kernel
from gpuscope.timeline.schedule import Schedule, build_schedule
from gpuscope.timeline.walk import walk_steps

LEAST_FACTOR = 0.05
"""No host or device is taken to be more than 20 times faster than predicted."""


def step_time_interval(costed: CostedProgram, steps: int = 3) -> tuple[float, float]:
    """80 % interval (low_s, high_s) of the steady step time; contains the point estimate.

    Wider spreads never give a narrower interval. Costs five walks over the step.

    Raises:
        InvalidValueError: `steps` is less than 1.
    """
    schedule = build_schedule(costed)
    point_s = _period_s(schedule, costed, steps, 1.0, 1.0)
    faster = max(LEAST_FACTOR, 1 - device_error(costed, lambda k: k.duration_s - k.low_s))
    slower = 1 + device_error(costed, lambda k: k.high_s - k.duration_s)
    host_low_s = _period_s(schedule, costed, steps, max(LEAST_FACTOR, 1 - costed.host_spread), 1.0)
    host_high_s = _period_s(schedule, costed, steps, 1 + costed.host_spread, 1.0)
    device_low_s = _period_s(schedule, costed, steps, 1.0, faster)
    device_high_s = _period_s(schedule, costed, steps, 1.0, slower)
    low_s = point_s - hypot(max(0.0, point_s - host_low_s), max(0.0, point_s - device_low_s))
    high_s = point_s + hypot(max(0.0, host_high_s - point_s), max(0.0, device_high_s - point_s))
    return max(low_s, min(host_low_s, device_low_s) * LEAST_FACTOR), high_s


def device_error(costed: CostedProgram, half_width_s: Callable[[Kernel], float]) -> float:
    """Relative 80 % half-width of the device time as a whole (formula in the module's text).

    Args:
        costed: the step.
        half_width_s: a kernel's own half-width; negative ones count as 0.
    """
    launches: dict[int, int] = defaultdict(int)
    objects: dict[int, Kernel] = {}
    for item in costed.ops:
        for kernel in item.kernels:
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
    systematic = costed.device_spread
    variance_s2 = sum(square_s2[kind] + (systematic * time_s[kind]) ** 2 for kind in time_s)
    return hypot(sqrt(variance_s2) / total_s, costed.common_spread)


def _period_s(
    schedule: Schedule, costed: CostedProgram, steps: int, host_scale: float, device_scale: float
) -> float:
    return walk_steps(
        schedule,
        costed.launch_latency_s,
        steps,
        host_scale=host_scale,
        device_scale=device_scale,
    ).period_s
