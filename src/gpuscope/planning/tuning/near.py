"""Fine-tunings one decision away from a choice: how much worse they are, and whether they fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuscope.planning.tuning.score import Estimate
from gpuscope.planning.tuning.types import Tuned, TuningQuestion, Weighed
from gpuscope.planning.types import Neighbour

__all__ = ["changed", "neighbours"]


def changed(mine: Tuned, other: Tuned) -> str | None:
    """What one decision differs, as "microbatch 2 → 4"; None where more do, or where devices do.

    An optimizer follows from its method, unless that is the same.
    """
    if mine.cluster != other.cluster:
        return None
    pairs = {
        "method": (mine.tuning.method, other.tuning.method),
        "fsdp": (mine.tuning.sharding, other.tuning.sharding),
        "microbatch": (mine.microbatch, other.microbatch),
        "packing": (mine.packing, other.packing),
        "recompute": tuple("full" if each.recompute else "none" for each in (mine, other)),
        "optimizer": (mine.tuning.optimizer, other.tuning.optimizer),
    }
    if mine.tuning.method != other.tuning.method:
        del pairs["optimizer"]
    found = [name for name, (own, theirs) in pairs.items() if own != theirs]
    if len(found) != 1:
        return None
    own, theirs = pairs[found[0]]
    if found[0] == "microbatch" and mine.microbatch not in (
        2 * other.microbatch,
        other.microbatch / 2,
    ):
        return None
    return f"{found[0]} {own} → {theirs}"


def neighbours(
    question: TuningQuestion,
    best: Weighed,
    simulated: Sequence[Weighed],
    scores: Mapping[Tuned, Estimate],
) -> tuple[Neighbour, ...]:
    """All that are one decision away, the best for the goal first.

    What was not simulated has the quick score's figures, scaled by what it was off for the choice.

    Args:
        question: what is asked.
        best: the choice.
        simulated: all that were, whether they fit or not.
        scores: of all candidates.
    """
    exact = {each.candidate: each for each in simulated}
    own, mine = scores[best.candidate], best.value(question.goal)
    away: dict[str, Neighbour] = {}
    for each, quick in scores.items():
        change = changed(best.candidate, each)
        if change is None:
            continue
        known = exact.get(each)
        longer = quick.step_s / own.step_s
        value = (known or _longer(best, longer)).value(question.goal)
        peak = known.peak_bytes if known else best.peak_bytes * quick.peak_bytes / own.peak_bytes
        found = Neighbour(
            change=change,
            candidate=each,
            more=value / mine - 1 if value is not None and mine else None,
            peak_bytes=peak,
            usable_bytes=best.usable_bytes,
            rank=known.rank if known else None,
        )
        # Of a method with several optimizers: what was simulated, else the best.
        if change not in away or _order(found) < _order(away[change]):
            away[change] = found
    return tuple(
        sorted(away.values(), key=lambda each: (each.more is None, each.more, each.change))
    )


def _order(each: Neighbour) -> tuple[bool, bool, float]:
    return each.rank is None, each.more is None, each.more or 0.0


def _longer(best: Weighed, longer: float) -> Weighed:
    """The choice's figures for another step; power is taken to be the same."""
    return replace(
        best,
        step_s=best.step_s * longer,
        energy_j=None if best.energy_j is None else best.energy_j * longer,
        usd=None if best.usd is None else best.usd * longer,
    )
