"""Amounts that events carry, spread evenly over their time and added up in equal bins."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.columns import Floats
from gpuscope.timeline.types import Ints


def spread(
    start_ns: Ints, end_ns: Ints, amount: Floats, window_ns: tuple[int, int], bins: int
) -> Floats:
    """Return the amount that falls into each bin; what lies in the window adds up exactly.

    Args:
        start_ns, end_ns: the events; one of no length falls wholly into the bin of its start.
        amount: what each carries, any unit; spread evenly from its start to its end.
        window_ns: start and end of the time that is binned.
        bins: how many equal bins.
    """
    begin, end = window_ns
    width = (end - begin) / bins
    if width <= 0:
        return np.zeros(bins)
    low = np.clip((start_ns - begin) / width, 0.0, bins)
    high = np.clip((end_ns - begin) / width, 0.0, bins)
    length = np.asarray((end_ns - start_ns) / width, np.float64)
    point = length <= 0
    inside = (start_ns >= begin) & (start_ns < end) if point.any() else point
    rate = np.where(point, 0.0, amount / np.where(point, 1.0, length))
    first = np.minimum(low.astype(np.int64), bins - 1)
    last = np.minimum(high.astype(np.int64), bins - 1)
    same = first == last
    here = rate * np.where(same, high - low, first + 1 - low)
    there = np.where(same, 0.0, rate * (high - last))
    alone = np.where(point & inside, amount, 0.0)
    parts = (
        np.bincount(first, weights=here + alone, minlength=bins),
        np.bincount(last, weights=there, minlength=bins),
        _whole_bins(first, last, rate, bins),
    )
    return np.asarray(sum(parts), np.float64)


def deferred(amount: Floats, most: float) -> Floats:
    """Return the amounts with no bin above what fits into it; all of it stays.

    Events that run beside each other share what there is: what does not get through in one bin
    does in the next that has room, what is left at the end in the last bins before it that have.

    Args:
        amount: of each bin.
        most: what fits into one.
    """
    if not len(amount) or amount.max() <= most:
        return amount
    for order in (1, -1):
        amount, kept = amount[::order].copy(), 0.0
        for at in np.flatnonzero((amount > most) | (np.cumsum(amount > most) > 0)).tolist():
            kept += amount[at]
            amount[at] = min(kept, most)
            kept -= amount[at]
        amount[-1] += kept  # more than fits at all: seen, not hidden
        amount = amount[::order]
    return amount


def _whole_bins(first: Ints, last: Ints, rate: Floats, bins: int) -> Floats:
    """What events give to the bins that they fill from end to end."""
    wide = last - first > 1
    if not wide.any():
        return np.zeros(bins)
    change = np.bincount(first[wide] + 1, weights=rate[wide], minlength=bins + 1)
    change -= np.bincount(last[wide], weights=rate[wide], minlength=bins + 1)
    filled = np.cumsum(change)[:bins]
    open_ = np.cumsum(
        np.bincount(first[wide] + 1, minlength=bins + 1)
        - np.bincount(last[wide], minlength=bins + 1)
    )[:bins]
    # Sums of differences leave dust of rounding where no event is: there nothing is.
    return np.asarray(np.where(open_ > 0, np.maximum(filled, 0.0), 0.0), np.float64)
