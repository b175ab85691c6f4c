"""Two benches side by side: which machine is ill, and where.

The same points are held against each other; a family's difference is the median of its ratios with
an interval that its own scatter gives. What stays inside `NOISE_SHARE` is taken for equal.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gpuscope.measurement.bench.types import BenchResult, Point, Value
from gpuscope.measurement.statistics import median_interval

NOISE_SHARE = 0.05
"""Repeated benches of one healthy machine agree within this on the median of a family."""

POINT_SHARE = 0.15
"""A single point that differs less than this, or than three times its own scatter, says nothing."""

CLOCK_SHARE = 0.02
"""Clocks that differ less than this explain nothing."""


@dataclass(frozen=True, slots=True)
class Group:
    """How the points of one kind differ.

    Attributes:
        kind: "family" or "bound".
        name: "matmul · mm", or what bounds the points ("compute", "memory", ...; see `types`).
        points: that both have.
        ratio: median of second time over first: above 1 the second machine is slower.
        low, high: 95 % interval of it (or what so few points reach).
        clock_ratio: median of second clock over first; None if not told.
        slower: "first", "second", or "" within the noise.
    """

    kind: str
    name: str
    points: int
    ratio: float
    low: float
    high: float
    clock_ratio: float | None
    slower: str

    @property
    def by_clock(self) -> bool:
        """Whether the slower machine's clock explains at least half of the difference."""
        if not self.slower or self.clock_ratio is None:
            return False
        explained = -math.log(self.clock_ratio)
        differs = math.log(self.ratio)
        return abs(explained) > CLOCK_SHARE and explained / differs > 0.5


@dataclass(frozen=True, slots=True)
class PointDifference:
    """One point that differs by itself."""

    bench: str
    family: str
    params: Mapping[str, Value]
    state: str
    first_s: float
    second_s: float
    kernels: tuple[str, str]

    @property
    def ratio(self) -> float:
        """Second over first."""
        return self.second_s / self.first_s

    @property
    def other_kernel(self) -> bool:
        """Whether the machines ran different kernels."""
        return self.kernels[0] != self.kernels[1]


@dataclass(frozen=True, slots=True)
class BenchComparison:
    """Two benches side by side.

    Attributes:
        machines: facts of both.
        different: facts that differ, by name: (first, second).
        families, bounds: groups, the largest difference first.
        outliers: single points that differ more than their family, the largest first.
        ill: "first", "second", "both" or "" (none is slower anywhere beyond the noise).
        only_first, only_second: points that the other one lacks.
    """

    machines: tuple[Mapping[str, str], Mapping[str, str]]
    different: Mapping[str, tuple[str, str]]
    families: tuple[Group, ...]
    bounds: tuple[Group, ...]
    outliers: tuple[PointDifference, ...]
    ill: str
    only_first: int
    only_second: int

    @property
    def same_device(self) -> bool:
        """Whether both are of one kind of device, so that differences mean illness."""
        first, second = (m.get("device") for m in self.machines)
        return first == second


Pair = tuple[Point, Point]


def compare_benches(first: BenchResult, second: BenchResult) -> BenchComparison:
    """Return how two benches differ.

    Args:
        first: what to hold the other against.
        second: the other one.
    """
    theirs = {p.key: p for p in second.points if p.median_s}
    ours = {p.key: p for p in first.points if p.median_s}
    pairs = [(p, theirs[key]) for key, p in ours.items() if key in theirs]
    families = _groups("family", pairs, lambda p: f"{p.bench} · {p.family}")
    bounds = _groups("bound", pairs, _bound)
    slower = {g.slower for g in (*families, *bounds)} - {""}
    names = sorted(first.machine.keys() | second.machine.keys())
    different = {
        name: (first.machine.get(name, ""), second.machine.get(name, ""))
        for name in names
        if first.machine.get(name) != second.machine.get(name)
    }
    return BenchComparison(
        (first.machine, second.machine),
        different,
        families,
        bounds,
        _outliers(pairs, families),
        "both" if len(slower) == 2 else next(iter(slower), ""),
        len(ours.keys() - theirs.keys()),
        len(theirs.keys() - ours.keys()),
    )


def _bound(point: Point) -> str:
    return point.bound or ("host" if point.state == "host" else "")


def _groups(kind: str, pairs: Iterable[Pair], name_of: Callable[[Point], str]) -> tuple[Group, ...]:
    members: dict[str, list[Pair]] = {}
    for a, b in pairs:
        name = name_of(a)
        if name:
            members.setdefault(name, []).append((a, b))
    groups = [_group(kind, name, found) for name, found in members.items()]
    return tuple(sorted(groups, key=lambda g: -abs(math.log(g.ratio))))


def _group(kind: str, name: str, pairs: list[Pair]) -> Group:
    ratios = [_ratio(a, b) for a, b in pairs]
    interval = median_interval(ratios)
    clocks = [b.sm_clock_hz / a.sm_clock_hz for a, b in pairs if a.sm_clock_hz and b.sm_clock_hz]
    slower = ""
    if interval.median > 1 + NOISE_SHARE and interval.low > 1:
        slower = "second"
    elif interval.median < 1 / (1 + NOISE_SHARE) and interval.high < 1:
        slower = "first"
    return Group(
        kind,
        name,
        len(pairs),
        interval.median,
        interval.low,
        interval.high,
        statistics.median(clocks) if clocks else None,
        slower,
    )


def _ratio(a: Point, b: Point) -> float:
    assert a.median_s is not None
    assert b.median_s is not None
    return b.median_s / a.median_s


def _outliers(pairs: list[Pair], families: tuple[Group, ...]) -> tuple[PointDifference, ...]:
    usual = {g.name: g.ratio for g in families}
    found = []
    for a, b in pairs:
        apart = abs(math.log(_ratio(a, b) / usual[f"{a.bench} · {a.family}"]))
        if apart > max(math.log1p(POINT_SHARE), 3 * (_scatter(a) + _scatter(b))):
            found.append((apart, _difference(a, b)))
    return tuple(d for _, d in sorted(found, key=lambda each: -each[0]))


def _scatter(point: Point) -> float:
    """From the fastest to nine in ten of the repetitions, relative."""
    if not point.min_s or not point.p90_s or not point.median_s:
        return 0.0
    return (point.p90_s - point.min_s) / point.median_s


def _difference(a: Point, b: Point) -> PointDifference:
    return PointDifference(
        a.bench,
        a.family,
        a.params,
        a.state,
        a.median_s or 0.0,
        b.median_s or 0.0,
        (a.kernel, b.kernel),
    )
