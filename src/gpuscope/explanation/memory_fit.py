"""How much still fits: a batch or a length, found by capturing the step at a few of them."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.explanation.memory_case import MemoryCase

_MOST_CAPTURES = 4
_SLACK = 0.04
"""Below the line's landing by so much where holes keep it from fitting; twice as much each time."""

_LARGEST = 2**24


@dataclass(frozen=True, slots=True)
class Point:
    """The step at one size.

    Attributes:
        value: batch or length.
        peak_bytes: most bytes of tensors at once.
        fits: whether every request found room.
    """

    value: int
    peak_bytes: int
    fits: bool


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest size that fits.

    Attributes:
        field: "batch", "seq" or "context".
        here: the size that was asked for.
        most: the largest that was found to fit; 0 if none does.
        next: the smallest that was found not to fit; None where none was found.
        points: every size that was captured, rising.
        step: sizes are multiples of this (or the one asked for).
    """

    field: str
    here: int
    most: int
    next: int | None
    points: tuple[Point, ...]
    step: int

    @property
    def exact(self) -> bool:
        """Whether the next size is known not to fit."""
        return self.next is not None and self.next - self.most <= self.step

    @property
    def bytes_each(self) -> float | None:
        """Bytes that one more of it takes, from the size asked for to the largest captured one
        (the smallest, where that is the largest): small steps may cost nothing, their peak being
        elsewhere. None where nothing grows."""
        if len(self.points) < 2:
            return None
        here = next(point for point in self.points if point.value == self.here)
        end = self.points[0] if here == self.points[-1] else self.points[-1]
        each = (end.peak_bytes - here.peak_bytes) / (end.value - here.value)
        return each if each > 0 else None


def largest(case: MemoryCase, field: str) -> Limit:
    """Search the largest batch or length that fits, with a few captures.

    The peak is nearly a straight line over the batch; a secant lands close, and the sizes beside
    its landing are captured to be sure.

    Args:
        case: the step as asked for; its own size counts as one point.
        field: a key of `case.sizes`.
    """
    here = case.sizes[field]
    step = 1 if field == "batch" else 64
    points = {here: Point(here, case.peak_bytes, case.fits)}
    # All but what is resident is taken to grow with the size: the first landing.
    grows = max(case.peak_bytes - case.resident_bytes(), 1)
    share = (case.capacity_bytes - case.resident_bytes()) / grows
    wanted = _round(here * min(max(share, 0.0), 1024.0), step)
    if wanted == here:
        wanted = here + step if case.fits else max(1, here - step)
    while len(points) <= _MOST_CAPTURES and wanted not in points and wanted <= _LARGEST:
        found = case.probe(**{field: wanted})
        if found is None:
            break
        points[wanted] = Point(wanted, *found)
        low, high = _ends(points)
        if high is not None and high - low <= step:
            break
        wanted = _guess(points, case.capacity_bytes, low, high, step)
    low, high = _ends(points)
    return Limit(field, here, low, high, tuple(points[v] for v in sorted(points)), step)


def _round(value: float, step: int) -> int:
    return max(1, int(value) // step * step)


def _ends(points: dict[int, Point]) -> tuple[int, int | None]:
    """Largest size that fits (0: none), and the smallest larger one that does not (None: none)."""
    low = max((p.value for p in points.values() if p.fits), default=0)
    high = min((p.value for p in points.values() if not p.fits and p.value > low), default=None)
    return low, high


def _guess(points: dict[int, Point], capacity: int, low: int, high: int | None, step: int) -> int:
    """Where the line through the two points nearest the capacity meets it, between the ends.

    Holes may keep a size from fitting that the line allows; then some below it is tried.
    """
    near = sorted(points.values(), key=lambda p: abs(p.peak_bytes - capacity))[:2]
    a, b = sorted(near, key=lambda p: p.value)
    slope = (b.peak_bytes - a.peak_bytes) / (b.value - a.value)
    landing = a.value + (capacity - a.peak_bytes) / slope if slope > 0 else 4.0 * b.value
    wanted = _round(min(landing, 64.0 * b.value), step)
    if high is None:
        return max(wanted, low + step)
    if wanted >= high:
        holes = sum(not p.fits and p.peak_bytes <= capacity for p in points.values())
        slack = min(_SLACK * 2 ** max(holes - 1, 0), 0.5)
        wanted = min(_round(high * (1 - slack), step), high - step)
    if wanted <= low:
        wanted = low + step if landing <= low + 2 * step else _round((low + high) / 2, step)
    return max(1, wanted)
