"""How late the last of n ranks is, and what waiting for it costs.

Every collective begins when its last rank arrives. If ranks' times vary independently by a standard
deviation sigma, the last of n is later than the average one by sigma times the expected largest of
n standard normal values: 0.56 of two, 1.42 of eight, 3.2 of 1,024, 4.0 of 16,384 (Harter,
"Expected Values of Normal Order Statistics", Biometrika 48, 1961). So waiting grows with the
logarithm of the job, not with its size, until a single slow device sets the pace of all.

Two things vary. Steps differ from each other on one device, little where the device sets the pace
and a lot where the host does: half-widths below are from the blocks of 57 recorded workloads
(validation/recordings/h200/zoo, blocks of about three steps, independent steps assumed). And
devices differ from each other for good: 8 % on average between GPUs of one cluster, up to 22 %
(Sinha et al., "Not All GPUs Are Created Equal", SC 2022); a standard deviation of 1 % is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import hypot, sqrt

import numpy as np

from gpuscope.document.quantities import Number, Seconds
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class Variability:
    """How ranks vary, as relative standard deviations.

    Attributes:
        step: of one step on one device.
        low, high: 80 % interval of that, over workloads.
        device: between devices, for good.
        device_low, device_high: 80 % interval of that.
    """

    step: float
    low: float
    high: float
    device: float = 0.01
    device_low: float = 0.003
    device_high: float = 0.03


DEVICE_BOUND = Variability(0.0034, 0.0008, 0.041)
"""Where the device sets the pace: 47 recorded workloads, median, 10th and 90th percentile."""

HOST_BOUND = Variability(0.095, 0.024, 0.48)
"""Where the host does: 10 of them (one virtual machine; hosts differ a lot)."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What an average rank waits for the last.

    Attributes:
        mean_s: expected wait of an average rank, seconds.
        low_s, high_s: 80 % interval, of what is not known about the variability.
        last_of: ranks.
    """

    mean_s: float
    low_s: float
    high_s: float
    last_of: int


@lru_cache(maxsize=1024)
def expected_largest(n: int) -> float:
    """Expected largest of n independent standard normal values.

    The mean from the distribution: the integral over x > 0 of P(largest > x) - P(largest < -x).

    Raises:
        InvalidValueError: n is not 1 or more.
    """
    if n < 1:
        raise InvalidValueError(
            Text("There is no largest of {n} values.", n=n), Text("Ranks are one or more."), ""
        )
    x = np.linspace(0.0, 9.0, 9001)
    above = _above(x)
    upper = -np.expm1(n * np.log1p(-above))  # 1 - F(x)^n
    lower = np.exp(n * np.log(above))  # F(-x)^n
    return float(np.trapezoid(upper - lower, x))


def _above(x: np.ndarray) -> np.ndarray:
    """The normal distribution's tail, P(X > x)."""
    from math import erfc

    return np.array([0.5 * erfc(value / sqrt(2)) for value in x])


def waiting(
    ranks: int, duration_s: float, variability: Variability = DEVICE_BOUND, steps: float = 1.0
) -> Waiting:
    """What an average rank waits at the end of a stretch of work for the last of its group.

    Args:
        ranks: in the group.
        duration_s: length of the stretch, seconds.
        variability: how ranks vary.
        steps: how many steps the stretch is long (below 1: a part of one); what varies from step
            to step averages out over more of them, what differs between devices does not.

    Raises:
        InvalidValueError: no ranks, or a stretch without length.
    """
    if duration_s < 0 or steps <= 0:
        raise InvalidValueError(
            Text(
                "A stretch of {duration} and {steps} steps cannot be.",
                duration=Seconds(duration_s),
                steps=Number(steps),
            ),
            Text("Both are positive."),
            "",
        )
    largest = expected_largest(ranks)
    each = 1 / sqrt(steps)
    v = variability
    values = [
        duration_s * largest * hypot(step * each, device)
        for step, device in ((v.step, v.device), (v.low, v.device_low), (v.high, v.device_high))
    ]
    return Waiting(values[0], values[1], values[2], ranks)


def share_waited(ranks: int, variability: Variability = DEVICE_BOUND) -> float:
    """Share of a synchronous step's time that an average rank waits for the last."""
    found = waiting(ranks, 1.0, variability).mean_s
    return found / (1 + found)
