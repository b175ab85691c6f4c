"""Ways to run one's own code that are one decision away from a choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuscope.planning.own.simulate import Quick
from gpuscope.planning.own.types import Changed, Weighed
from gpuscope.planning.types import Neighbour

__all__ = ["changed", "neighbours"]


def changed(mine: Changed, other: Changed) -> str | None:
    """What one decision differs, as "batch 8 → 16" or "+ compile"; None where more do, or where
    devices do."""
    if mine.cluster != other.cluster:
        return None
    found = []
    if mine.share != other.share:
        found.append(f"{mine.share or 'none'} → {other.share or 'none'}")
    if mine.batch != other.batch:
        found.append(f"batch {mine.batch} → {other.batch}")
    found += [f"+ {name}" for name in other.techniques if name not in mine.techniques]
    found += [f"− {name}" for name in mine.techniques if name not in other.techniques]
    return found[0] if len(found) == 1 else None


def neighbours(
    goal: str,
    best: Weighed,
    simulated: Sequence[Weighed],
    found: Sequence[Changed],
    scores: Sequence[Quick],
) -> tuple[Neighbour, ...]:
    """All that are one decision away, the best for the goal first.

    What was not simulated has the quick score's figures, scaled by what it was off for the choice.

    Args:
        goal: one of `gpuscope.planning.figures.registry.goals`, of a sample.
        best: the choice.
        simulated: all that were, whether they fit or not.
        found: every candidate.
        scores: of each.
    """
    exact = {each.candidate: each for each in simulated}
    own, mine = scores[list(found).index(best.candidate)], best.value(goal)
    away: list[Neighbour] = []
    for each, quick in zip(found, scores, strict=True):
        change = changed(best.candidate, each)
        if change is None:
            continue
        known = exact.get(each)
        longer = quick.step_s / own.step_s if own.step_s else 1.0
        value = (known or _scaled(best, each, longer)).value(goal)
        fuller = quick.peak_bytes / own.peak_bytes if own.peak_bytes else 1.0
        away.append(
            Neighbour(
                change=change,
                candidate=each,
                more=value / mine - 1 if value is not None and mine else None,
                peak_bytes=known.peak_bytes if known else best.peak_bytes * fuller,
                usable_bytes=best.usable_bytes,
                rank=known.rank if known else None,
            )
        )
    return tuple(sorted(away, key=lambda each: (each.more is None, each.more, each.change)))


def _scaled(best: Weighed, candidate: Changed, longer: float) -> Weighed:
    """The choice's figures for another step; power is taken to be the same."""
    return replace(
        best,
        candidate=candidate,
        step_s=best.step_s * longer,
        energy_j=None if best.energy_j is None else best.energy_j * longer,
        usd=None if best.usd is None else best.usd * longer,
    )
