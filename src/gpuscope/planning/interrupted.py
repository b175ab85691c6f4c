"""The best so far where a search was interrupted before anything fitted: by the quick score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gpuscope.planning.simulate import probability_to_fit
from gpuscope.planning.types import Simulated

__all__ = ["by_score"]

S = TypeVar("S", bound=Simulated)


def by_score(
    kind: Callable[..., S], candidate: Any, step_s: float, peak_bytes: float, **more: Any
) -> S:
    """A candidate that was not simulated, its figures those of the quick score.

    Args:
        kind: what simulated candidates of this search are.
        candidate: with its `cluster`.
        step_s, peak_bytes: by the quick score.
        more: fields that this kind has besides.
    """
    usable = candidate.cluster.device.memory_usable_bytes
    price = candidate.cluster.price_usd_per_hour
    return kind(
        candidate=candidate,
        scored_s=step_s,
        step_s=step_s,
        low_s=step_s,
        high_s=step_s,
        peak_bytes=round(peak_bytes),
        usable_bytes=usable,
        fits=probability_to_fit(peak_bytes, usable),
        energy_j=None,
        usd=None if price is None else price * step_s / 3600,
        simulated=False,
        **more,
    )
