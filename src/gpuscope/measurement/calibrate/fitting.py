"""Fits the constants that a set of points can determine, and no others.

The starting point is the nearest calibrated device. A constant is moved only if the measured times
feel it, only a few are moved at once, and moving one far costs, so that few points cannot bend the
physics. A third of the points takes no part: it says whether the fit is better than what there was
(if not, that stays), and how wide the interval is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from gpuscope.hardware import Device
from gpuscope.measurement.calibrate.cases import CalibrationCase, log_errors, traced

NUDGE = 1.15
"""Factor by which a constant is moved to see whether the times feel it."""

FEELS = 0.004
"""Least mean change of ln(time) by a nudge for a constant to be fitted."""

PULL = 0.02
"""What moving a constant by a factor e costs, as mean absolute ln error."""

FURTHEST = 4.0
"""No constant leaves its start by more than this factor: a machine, not another physics."""

WORTH = 0.98
"""A fit replaces what there was where its error is at most this share of the old one."""

ROUNDS = 4
PAIRED = 2
"""Rounds that begin with moving pairs of constants, one up and one down."""

FIRST_STEP = 1.4
LEAST_POINTS = 6

_LARGEST_ERROR = 1.2
"""Errors above count as this, so that a few oddities do not steer."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Constants of one group of points.

    Attributes:
        values: constants that were moved.
        before: mean absolute ln error of the judging points with the constants there were.
        after: the same with `values`.
        spread: relative half-width that holds 80 % of the judging points.
        points: how many points there are, judging ones included.
        judged: how many of them judge.
    """

    values: Mapping[str, float]
    before: float
    after: float
    spread: float
    points: int
    judged: int


def loss(errors: Sequence[float]) -> float:
    """Mean absolute ln error, large ones damped; nan left out."""
    known = [min(abs(e), _LARGEST_ERROR) for e in errors if not math.isnan(e)]
    return sum(known) / len(known) if known else math.inf


def spread(errors: Sequence[float]) -> float:
    """Relative half-width that holds 80 % of the errors (at least 1 %)."""
    known = sorted(abs(e) for e in errors if not math.isnan(e))
    if not known:
        return math.inf
    return max(0.01, math.expm1(known[max(0, math.ceil(0.8 * len(known)) - 1)]))


def fit_group(
    cases: Sequence[CalibrationCase],
    device: Device,
    values: Mapping[str, float],
    may_move: Callable[[str], bool],
    most: int,
) -> Fitted | None:
    """Fit what the points determine.

    Args:
        cases: of one kind.
        device: that was measured.
        values: all constants as they stand.
        may_move: which names belong to the group.
        most: constants to move at most.

    Returns:
        None for fewer than `LEAST_POINTS` points that a model covers.
    """
    base = log_errors(cases, device, values)
    cases = [c for c, error in zip(cases, base, strict=True) if not math.isnan(error)]
    if len(cases) < LEAST_POINTS:
        return None
    train = [c for c in cases if not c.held_out] or list(cases)
    judge = [c for c in cases if c.held_out] or list(cases)
    names = determined(train, device, values, may_move, most)
    moved = descend(train, device, values, names)
    before = loss(log_errors(judge, device, values))
    errors = log_errors(judge, device, {**values, **moved})
    after = loss(errors)
    if after > before * WORTH:  # what there was explains these points as well
        moved, after = {}, before
        errors = log_errors(judge, device, values)
    return Fitted(moved, before, after, spread(errors), len(cases), len(judge))


def determined(
    cases: Sequence[CalibrationCase],
    device: Device,
    values: Mapping[str, float],
    may_move: Callable[[str], bool],
    most: int,
) -> list[str]:
    """The constants that the times feel most, at most `most` and no more than a third of points."""
    base = log_errors(cases, device, values)
    felt = []
    used = traced(cases, device, values).asked & set(values)
    for name in sorted(n for n in used if may_move(n)):
        # Both ways: a limit that another one hides is felt only from one side.
        change = max(
            sum(abs(a - b) for a, b in zip(base, nudged, strict=True)) / len(cases)
            for factor in (NUDGE, 1 / NUDGE)
            if (nudged := log_errors(cases, device, {**values, name: values[name] * factor}))
        )
        if change > FEELS:
            felt.append((change, name))
    felt.sort(reverse=True)
    return [name for _, name in felt[: max(1, min(most, len(cases) // 3))]]


Errors = Callable[[Sequence[CalibrationCase], Device, Mapping[str, float]], list[float]]


def descend(
    cases: Sequence[CalibrationCase],
    device: Device,
    values: Mapping[str, float],
    names: Sequence[str],
    errors_of: Errors = log_errors,
) -> dict[str, float]:
    """Coordinate descent by factors, the step halved every round; the moved constants."""
    start = {name: values[name] for name in names if values[name] > 0}

    def score(trying: Mapping[str, float]) -> float:
        pull = sum(abs(math.log(trying[n] / start[n])) for n in start) * PULL
        return loss(errors_of(cases, device, {**values, **trying})) + pull

    found = dict(start)
    best, step = score(found), FIRST_STEP
    for number in range(ROUNDS):
        if number < PAIRED:  # of two limits that hide each other, neither is better moved alone
            for up, down in permutations(start, 2):
                both = {**found, up: found[up] * step, down: found[down] / step}
                tried = score(both)
                if tried < best - 1e-6 and _near(both, start):
                    found, best = both, tried
        for name in start:
            for factor in (step, 1 / step):
                while True:
                    value = found[name] * factor
                    if not _near({name: value}, start):
                        break
                    tried = score({**found, name: value})
                    if tried >= best - 1e-6:
                        break
                    found[name], best = value, tried
        step = math.sqrt(step)
    return {name: value for name, value in found.items() if value != start[name]}


def _near(values: Mapping[str, float], start: Mapping[str, float]) -> bool:
    return all(1 / FURTHEST < values[n] / start[n] < FURTHEST for n in values)
