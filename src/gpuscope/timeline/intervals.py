"""Exact arithmetic on sets of half-open intervals [start, end) in integer nanoseconds.

An interval set is a pair of int64 arrays (starts, ends) of equal length. Inputs may come in any
order and may overlap; empty intervals (end <= start) count for nothing. Results are *merged*:
sorted, disjoint, not touching. Everything costs O(n log n) at most.
"""

from __future__ import annotations

import numpy as np

from gpuscope.timeline.types import Ints

Intervals = tuple[Ints, Ints]
"""(starts, ends) of a set of intervals."""


def merge(start_ns: Ints, end_ns: Ints) -> Intervals:
    """The union as disjoint intervals in ascending order; intervals that touch become one."""
    keep = end_ns > start_ns
    start_ns, end_ns = start_ns[keep], end_ns[keep]
    if not len(start_ns):
        return start_ns.astype(np.int64), end_ns.astype(np.int64)
    order = np.argsort(start_ns, kind="stable")
    start_ns, end_ns = start_ns[order], end_ns[order]
    reach = np.maximum.accumulate(end_ns)
    opens = np.concatenate(([True], start_ns[1:] > reach[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return start_ns[opens], reach[closes]


def union_length(start_ns: Ints, end_ns: Ints) -> int:
    """Nanoseconds covered by at least one interval."""
    starts, ends = merge(start_ns, end_ns)
    return int((ends - starts).sum())


def intersection(first: Intervals, second: Intervals) -> Intervals:
    """Where both sets cover."""
    return _where_both(merge(*first), merge(*second))


def subtraction(first: Intervals, second: Intervals) -> Intervals:
    """Where `first` covers and `second` does not."""
    a, b = merge(*first), merge(*second)
    if not len(a[0]):
        return a
    low = min(int(a[0][0]), int(b[0][0]) if len(b[0]) else int(a[0][0]))
    high = max(int(a[1][-1]), int(b[1][-1]) if len(b[1]) else int(a[1][-1]))
    return _where_both(a, gaps(b, low, high))


def gaps(covered: Intervals, low_ns: int, high_ns: int) -> Intervals:
    """What a set leaves uncovered of the window [low_ns, high_ns)."""
    starts, ends = clip(covered, low_ns, high_ns)
    edge_low, edge_high = np.array([low_ns], np.int64), np.array([high_ns], np.int64)
    left, right = np.concatenate((edge_low, ends)), np.concatenate((starts, edge_high))
    keep = right > left
    return left[keep], right[keep]


def clip(covered: Intervals, low_ns: int, high_ns: int) -> Intervals:
    """The part of a set inside the window [low_ns, high_ns), merged."""
    starts, ends = covered
    return merge(np.maximum(starts, low_ns), np.minimum(ends, high_ns))


def overlap_length(first: Intervals, second: Intervals) -> int:
    """Nanoseconds that both sets cover."""
    starts, ends = intersection(first, second)
    return int((ends - starts).sum())


def _where_both(first: Intervals, second: Intervals) -> Intervals:
    """Sweep two merged sets; keep where both cover."""
    points = np.concatenate((first[0], second[0], first[1], second[1]))
    opening = len(first[0]) + len(second[0])
    change = np.ones(len(points), np.int64)
    change[opening:] = -1
    # Ends before begins at one point, so that intervals that only touch do not overlap.
    order = np.lexsort((change, points))
    points, depth = points[order], np.cumsum(change[order])
    wanted = depth >= 2
    inside = np.flatnonzero(wanted[:-1]) if len(points) else np.zeros(0, np.int64)
    return merge(points[inside], points[inside + 1])
