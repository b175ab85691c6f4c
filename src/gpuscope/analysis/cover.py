"""A set of times as merged intervals, and how much of any other interval it covers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.timeline.intervals import gaps, merge
from gpuscope.timeline.types import Ints


@dataclass(frozen=True, slots=True)
class Cover:
    """Disjoint, ascending, non-touching intervals [start, end) in integer nanoseconds.

    Attributes:
        start_ns, end_ns: the intervals.
        before_ns: covered nanoseconds before each interval (one more entry: the total).
    """

    start_ns: Ints
    end_ns: Ints
    before_ns: Ints

    @classmethod
    def of(cls, start_ns: Ints, end_ns: Ints) -> Cover:
        """Merge any intervals, given in any order; empty ones are dropped."""
        start_ns, end_ns = merge(start_ns, end_ns)
        return cls(start_ns, end_ns, np.concatenate(([0], np.cumsum(end_ns - start_ns))))

    @property
    def total_ns(self) -> int:
        """Nanoseconds covered."""
        return int(self.before_ns[-1])

    def until(self, time_ns: Ints) -> Ints:
        """Return the covered nanoseconds before each time."""
        if len(self.start_ns) == 0:
            return np.zeros_like(time_ns)
        index = np.searchsorted(self.start_ns, time_ns, side="right") - 1
        inside = np.maximum(index, 0)
        partial = np.minimum(time_ns, self.end_ns[inside]) - self.start_ns[inside]
        return np.where(index < 0, 0, self.before_ns[inside] + partial)

    def within(self, start_ns: Ints, end_ns: Ints) -> Ints:
        """Return the covered nanoseconds inside each interval [start, end)."""
        return self.until(end_ns) - self.until(start_ns)

    def holds(self, time_ns: Ints) -> npt.NDArray[np.bool_]:
        """Return whether each time lies inside: start < time <= end.

        So a wait that ends exactly when the device falls idle still counts as "was waiting".
        """
        if len(self.start_ns) == 0:
            return np.zeros(len(time_ns), bool)
        index = np.searchsorted(self.start_ns, time_ns, side="left") - 1
        inside = np.maximum(index, 0)
        return (index >= 0) & (time_ns <= self.end_ns[inside])

    def gaps(self, start_ns: int, end_ns: int) -> tuple[Ints, Ints]:
        """Return what is not covered between two times, as (starts, ends)."""
        return gaps((self.start_ns, self.end_ns), start_ns, end_ns)
