"""Of simulated candidates: the front, the ties, the one to take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Protocol, TypeVar

from gpuscope.hardware import Cluster

__all__ = ["choose", "front", "indistinct", "tied", "undominated"]

SHARED = 0.9
"""Correlation that is assumed between the errors of two candidates on the same device: they run
mostly the same kernels. Across devices none is."""


class Choice(Protocol):
    """One way to run something."""

    @property
    def cluster(self) -> Cluster:
        """What it runs on."""

    @property
    def words(self) -> str:
        """As on a command line."""

    @property
    def dimensions(self) -> int:
        """How many things it does besides running the model."""

    @property
    def devices(self) -> int:
        """Of the whole job."""


class Ranked(Protocol):
    """One of these that was simulated."""

    @property
    def candidate(self) -> Choice:
        """What was."""

    @property
    def step_s(self) -> float:
        """Simulated."""

    @property
    def low_s(self) -> float:
        """Lower end of its 80 % interval."""

    @property
    def high_s(self) -> float:
        """Upper end."""

    @property
    def usd(self) -> float | None:
        """Of a step."""

    @property
    def energy_j(self) -> float | None:
        """Of a step."""

    def value(self, goal: str) -> float | None:
        """What the goal makes small."""


R = TypeVar("R", bound=Ranked)
T = TypeVar("T")


def choose(judged: Sequence[R], goal: str) -> tuple[R, tuple[R, ...]]:
    """The best, and all that cannot be told from the smallest, it included.

    The simplest of them is the best: fewest dimensions, fewest devices, then the smallest.

    Args:
        judged: at least one, each with the goal's figure.
        goal: one of `gpuscope.planning.figures.registry.goals`.
    """
    least = min(judged, key=lambda each: _order(each, goal))
    ties = tuple(sorted((j for j in judged if tied(least, j, goal)), key=lambda j: _order(j, goal)))
    best = min(ties, key=lambda j: (j.candidate.dimensions, j.candidate.devices, _order(j, goal)))
    return best, ties


def tied(a: Ranked, b: Ranked, goal: str) -> bool:
    """Whether the 80 % interval of the difference of two candidates includes zero."""
    first, second = a.value(goal), b.value(goal)
    if first is None or second is None:
        return False
    same = a.candidate.cluster.device.id == b.candidate.cluster.device.id
    return indistinct(first, _half(a), second, _half(b), same_device=same)


def indistinct(
    first: float, first_half: float, second: float, second_half: float, *, same_device: bool
) -> bool:
    """Whether the 80 % interval of a difference includes zero.

    Args:
        first, second: figures of two candidates.
        first_half, second_half: half of the interval of each, as a share.
        same_device: their errors are mostly the same.
    """
    one, other = first_half * first, second_half * second
    rho = SHARED if same_device else 0.0
    return abs(first - second) <= sqrt(max(0.0, one**2 + other**2 - 2 * rho * one * other))


def front(judged: Sequence[R]) -> tuple[R, ...]:
    """Candidates that no other beats in time, cost and energy, quickest first."""
    kept = undominated(judged, lambda each: (each.step_s, each.usd, each.energy_j))
    return tuple(sorted(kept, key=lambda each: each.step_s))


def undominated(
    judged: Sequence[T], figures: Callable[[T], tuple[float | None, ...]]
) -> tuple[T, ...]:
    """Those that no other beats or equals in every known figure, in their order.

    Args:
        judged: candidates.
        figures: of one of them, each the smaller the better; None: not known.
    """
    known = [figures(each) for each in judged]
    return tuple(
        each
        for each, own in zip(judged, known, strict=True)
        if not any(_beats(other, own) for other in known)
    )


def _beats(a: tuple[float | None, ...], b: tuple[float | None, ...]) -> bool:
    pairs = [
        (one, other)
        for one, other in zip(a, b, strict=True)
        if one is not None and other is not None
    ]
    return all(one <= other for one, other in pairs) and any(one < other for one, other in pairs)


def _half(judged: Ranked) -> float:
    """Half of the interval, as a share of the step."""
    return (judged.high_s - judged.low_s) / 2 / judged.step_s


def _order(judged: Ranked, goal: str) -> tuple[float, str]:
    value = judged.value(goal)
    return (float("inf") if value is None else value, judged.candidate.words)
