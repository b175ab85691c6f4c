"""The highest rate at which what was promised holds: found by halving, with its interval.

At a rate, it holds where 99 % of the requests keep every limit. The interval is that of device
time: the same search with iterations that take longer, and less, by its 80 % half-width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log10

from gpuscope.serving.metrics import kept_limits, seconds_of
from gpuscope.serving.requests import Requests
from gpuscope.serving.result import Served
from gpuscope.serving.simulate import Deployment, capacity_per_s, serve_requests
from gpuscope.serving.slo import Limit

SHARE = 0.99
"""Of the requests, that keep every limit."""

_SLOWEST, _HALVINGS = 0.01, 10
"""Share of the capacity that is tried at least; the bracket of 100 is halved to 0.5 %."""

Asked = Callable[[float], Requests]
"""The requests at so many each second."""


@dataclass(frozen=True, slots=True)
class Highest:
    """A rate, and between which it is, 80 %; None: not even the slowest tried keeps the limits.

    Attributes:
        rate_per_s, low_per_s, high_per_s: requests each second.
        tried_per_s: the slowest that was tried.
    """

    rate_per_s: float | None
    low_per_s: float | None
    high_per_s: float | None
    tried_per_s: float


def highest_rate(found: Deployment, asked: Asked, limits: Sequence[Limit]) -> Highest:
    """Search for it.

    Args:
        found: what serves.
        asked: makes the requests of a rate.
        limits: what is promised.
    """
    spread = max(found.cost.spread, 0.1)
    rate, tried = _searched(found, asked, limits)
    low, _ = _searched(slower(found, 1 + spread), asked, limits)
    high, _ = _searched(slower(found, 1 / (1 + spread)), asked, limits)
    return Highest(rate, low, high, tried)


def nearest(served: Served, limits: Sequence[Limit]) -> tuple[Limit, ...]:
    """The limits, those that some request broke as wide as the slowest needs, rounded up."""
    slowest = ((each, float(seconds_of(served, each.metric).max())) for each in limits)
    return tuple(
        each if most <= each.seconds else Limit(each.metric, _up(most)) for each, most in slowest
    )


def _up(seconds: float) -> float:
    """To two digits."""
    unit = 10.0 ** (floor(log10(seconds)) - 1)
    return ceil(seconds / unit) * unit


def slower(found: Deployment, times: float) -> Deployment:
    """The same with device time so many times as long."""
    cost = replace(found.cost, scale=found.cost.scale * times)
    prefill = slower(found.prefill, times) if found.prefill else None
    return replace(found, cost=cost, prefill=prefill)


def _searched(
    found: Deployment, asked: Asked, limits: Sequence[Limit]
) -> tuple[float | None, float]:
    most = capacity_per_s(found, asked(1.0))
    slow = most * _SLOWEST
    if not _holds(found, asked(slow), limits):
        return None, slow
    if _holds(found, asked(most), limits):
        return most, slow
    low, high = slow, most
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _holds(found, asked(middle), limits) else (low, middle)
    return low, slow


def _holds(found: Deployment, requests: Requests, limits: Sequence[Limit]) -> bool:
    kept = kept_limits(serve_requests(found, requests).served, limits)
    return float(kept.mean()) >= SHARE
