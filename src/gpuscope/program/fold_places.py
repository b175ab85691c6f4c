"""Positions in a shallow program, and where they are in the grown one. Knows no torch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from gpuscope.program.fold_layers import FIRST, LEAD, SECOND, TAIL, NotFoldableError, Pass, Tags

__all__ = ["Place", "Places"]


@dataclass(frozen=True, slots=True)
class Place:
    """A position of the shallow program.

    Attributes:
        walk: number of the pass, -1 outside of the repeated segments.
        segment: FIRST or SECOND inside of them.
        at: offset in the segment; outside, the operator's index (-1: before all).
    """

    walk: int
    segment: int
    at: int

    @property
    def repeated(self) -> bool:
        """Whether it lies in a repeated segment."""
        return self.walk >= 0

    def follows(self, other: Place) -> bool:
        """Whether this is the place of `other` one period deeper (outside: the same place)."""
        deeper = self.segment - other.segment == (1 if self.repeated else 0)
        return self.walk == other.walk and self.at == other.at and deeper


class Places:
    """From positions in the shallow program to positions in the grown one.

    Args:
        passes: in program order.
        copies: periods put between the two captured ones.
        tags: zones of operators.
    """

    def __init__(self, passes: Sequence[Pass], copies: int, tags: Tags) -> None:
        self.passes, self.copies, self.tags = passes, copies, tags
        self._starts = [walk.start for walk in passes]
        self._grown = [0]
        for walk in passes:
            self._grown.append(self._grown[-1] + copies * walk.length)

    def of(self, index: int) -> Place:
        """Where the operator of that index is; -1 is before all."""
        number = bisect_right(self._starts, index) - 1
        if number < 0 or index >= self.passes[number].end:
            return Place(-1, 0, index)
        walk = self.passes[number]
        for segment in (FIRST, SECOND):
            offset = index - walk.segment_start(segment)
            if 0 <= offset < walk.length:
                return Place(number, segment, offset)
        raise AssertionError("segments cover the pass")

    def index(self, place: Place, periods: int = 0) -> int:
        """Index in the grown program of a place, `periods` deeper if in a segment."""
        if not place.repeated:
            return place.at + self._grown[bisect_right(self._starts, place.at)]
        segment = place.segment + periods
        if not FIRST <= segment <= self.copies + SECOND:
            raise NotFoldableError("a tensor lives across more layers than were captured")
        walk = self.passes[place.walk]
        turn = segment - FIRST if walk.upwards else self.copies + SECOND - segment
        return walk.start + self._grown[place.walk] + turn * walk.length + place.at

    def side(self, index: int) -> int | None:
        """LEAD or TAIL: the end of the stack that an operator outside of the segments is at.

        None where it is at neither, e.g. between two forward passes.
        """
        tag = self.tags.of_op[index] if index >= 0 else None
        if tag in (LEAD, TAIL):
            return tag
        number = bisect_right(self._starts, index)
        before = after = None
        if number > 0:
            before = TAIL if self.passes[number - 1].upwards else LEAD
        if number < len(self.passes):
            after = LEAD if self.passes[number].upwards else TAIL
        if before is None or after is None or before == after:
            return before if after is None else after
        return self._among(index)

    def _among(self, index: int) -> int | None:
        """LEAD or TAIL where the tagged operators before and after it are both of that end."""
        ahead = (tag for tag in reversed(self.tags.of_op[: max(0, index)]) if tag is not None)
        behind = (tag for tag in self.tags.of_op[max(0, index) :] if tag is not None)
        zone = next(ahead, None)
        return zone if zone in (LEAD, TAIL) and next(behind, None) == zone else None
