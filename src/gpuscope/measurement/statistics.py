"""Medians with intervals, and when a series of times has settled. Pure; knows no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

SETTLED_TOLERANCE = 0.02
"""A drift over the recent steps below this share of the median counts as none."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A median between two of its own samples.

    Attributes:
        median, low, high: of the samples, in their unit.
        confidence: probability that [low, high] holds the true median, whatever the samples'
            distribution; None of fewer than two samples.
    """

    median: float
    low: float
    high: float
    confidence: float | None


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return the median with the narrowest symmetric order-statistic interval.

    The i-th smallest and the i-th largest of n independent samples hold the median with
    probability 1 - 2 * P(Binomial(n, 1/2) < i) (Conover, "Practical Nonparametric Statistics",
    3rd ed., section 3.2). Where even the smallest and the largest do not reach the confidence
    asked for (5 samples or fewer for 95 %), they are returned with what they do reach.

    Raises:
        ValueError: no samples.
    """
    if not samples:
        raise ValueError("No samples.")
    ordered = sorted(samples)
    n = len(ordered)
    median = float(np.median(ordered))
    if n == 1:
        return Interval(median, median, median, None)
    best = _rank_for(n, confidence)
    return Interval(median, ordered[best - 1], ordered[n - best], _coverage(n, best))


_EXACT = 200
"""Most samples whose ranks are searched one by one."""


def _rank_for(n: int, confidence: float) -> int:
    """The largest i for which the i-th smallest and i-th largest hold the median well enough.

    Of many samples the normal approximation of the binomial gives it, a rank too wide at most.
    """
    if n > _EXACT:
        z = NormalDist().inv_cdf(0.5 + confidence / 2)
        return max(1, math.floor((n - z * math.sqrt(n)) / 2))
    best = 1
    while best + 1 <= n // 2 and _coverage(n, best + 1) >= confidence:
        best += 1
    return best


def _coverage(n: int, i: int) -> float:
    """Probability that the median lies between the i-th smallest and i-th largest of n."""
    below, term = 0, 1  # whole numbers: exact, any size; each from the one before
    for k in range(i):
        below += term
        term = term * (n - k) // (k + 1)
    share: float = below / 2**n
    return 1 - 2 * share


def settled_from(
    times_s: Sequence[float], *, least: int = 6, tolerance: float = SETTLED_TOLERANCE
) -> int | None:
    """Return the index of the first time of the steady part, or None if there is none yet.

    The later half of the times (at least 4) must show no trend: the Theil-Sen drift over it stays
    below `tolerance` of its median, or below what its own scatter explains. The steady part then
    begins where a running median of three first comes within 5 % (or three times the scatter) of
    that median and stays there.

    Args:
        times_s: step times in order.
        least: fewest times to judge on.
        tolerance: relative drift that counts as none.
    """
    n = len(times_s)
    if n < max(least, 4):
        return None
    times = np.asarray(times_s, np.float64)
    recent = times[-max(4, n // 2) :]
    steady = float(np.median(recent))
    # From one step to the next, less what they have in common, so that neither a trend nor a change
    # of level is taken for scatter; the median of |difference| of two normal values is
    # 0.6745 * sqrt(2) standard deviations.
    changes = np.diff(recent)
    scatter = float(np.median(np.abs(changes - np.median(changes)))) / (0.6745 * math.sqrt(2))
    drift = abs(_drift(recent))
    explained = 2 * scatter * math.sqrt(12 / len(recent))
    if drift > max(tolerance * steady, explained):
        return None
    band = max(0.05 * steady, 3 * scatter)
    padded = np.concatenate((times[:1], times, times[-1:]))
    smooth = np.median(np.stack((padded[:-2], padded[1:-1], padded[2:])), axis=0)
    smooth[0] = times[0]
    outside = np.flatnonzero(np.abs(smooth - steady) > band)
    first = int(outside[-1]) + 1 if len(outside) else 0
    return first if first <= n - 4 else None


def _drift(values: npt.NDArray[np.float64]) -> float:
    """Return the change from first to last along the median slope of all pairs (Theil-Sen)."""
    if len(values) > 200:  # the pairs grow with the square
        values = values[:: len(values) // 100]
    i, j = np.triu_indices(len(values), 1)
    return float(np.median((values[j] - values[i]) / (j - i))) * (len(values) - 1)
