"""How far published repeats of one run lie apart, which a prediction that knows no release misses.

The same model on the same machines with the same plan, precision and batch, measured with several
releases of the software. Only measurements are read, never a prediction or its error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist

from published.rows import Row

_MOST = 1.0
"""Repeats further apart than e: other settings, not another release."""

_EIGHTY = NormalDist().inv_cdf(0.9)
"""Standard deviations to either side that hold 80 %."""


def same_run(row: Row) -> tuple[object, ...]:
    """What two rows must share to be the same run with another release."""
    model = row.model.split(" (")[0]
    precision = (row.precision or "").split(" ")[0]
    return (
        model,
        row.hardware,
        row.devices,
        row.seq,
        row.global_batch,
        row.micro_batch,
        row.tp,
        row.pp,
        row.cp,
        row.ep,
        row.virtual,
        precision,
        row.quantity,
    )


def repeats(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows of the same run with at least two releases, one row a release (its first)."""
    groups: dict[tuple[object, ...], dict[str, Row]] = {}
    for row in rows:
        if row.release:
            groups.setdefault(same_run(row), {}).setdefault(row.release, row)
    return [list(group.values()) for group in groups.values() if len(group) > 1]


def release_spread(rows: Iterable[Row]) -> float | None:
    """Half-width, in logarithms, of the 80 % interval of one release around the run's middle.

    The pooled standard deviation within runs (each run's mean taken off, so with one degree of
    freedom less a run), times 1.28.

    Args:
        rows: as published.

    Returns:
        None where no run was repeated.
    """
    squares, free = 0.0, 0
    for group in repeats(rows):
        logs = _logs(group)
        if max(logs) - min(logs) > _MOST:
            continue
        middle = sum(logs) / len(logs)
        squares += sum((value - middle) ** 2 for value in logs)
        free += len(logs) - 1
    return _EIGHTY * math.sqrt(squares / free) if free else None


def has_experts(row: Row) -> bool:
    """Whether its experts are spread over ranks: such runs changed most between releases."""
    return (row.ep or 1) > 1


def release_spreads(rows: Iterable[Row], without: str = "") -> dict[str, float]:
    """The spread that each training run gets, by its id: that of its like, experts or none.

    A run with experts on one rank, or that no repeated run is like, gets that of runs without.

    Args:
        rows: as published.
        without: a release whose measurements tell nothing.
    """
    known = tuple(rows)
    told = [row for row in known if not without or row.release != without]
    found = {
        experts: release_spread(row for row in told if has_experts(row) is experts)
        for experts in (True, False)
    }
    return {
        row.id: spread
        for row in known
        if row.kind != "inference" and (spread := found[has_experts(row)]) is not None
    }


def widened(
    step_s: float, low_s: float, high_s: float, below: float, above: float
) -> tuple[float, float]:
    """An interval with another, independent uncertainty of these half-widths in logarithms."""
    down = math.hypot(math.log(step_s / low_s), below)
    up = math.hypot(math.log(high_s / step_s), above)
    return step_s * math.exp(-down), step_s * math.exp(up)


def _logs(group: Sequence[Row]) -> list[float]:
    return [math.log(row.value) for row in group]
