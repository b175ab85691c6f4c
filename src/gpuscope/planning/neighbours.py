"""Plans one decision away from a choice: how much worse they are, and whether they fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from gpuscope.planning.dimensions.registry import DIMENSIONS
from gpuscope.planning.score import Scores
from gpuscope.planning.types import Candidate, Judged, Neighbour
from gpuscope.program.models.parallel.options import Parallelism

__all__ = ["changed", "near", "neighbours"]


def changed(mine: Candidate, other: Candidate) -> str | None:
    """What one decision differs, as "tp 4 → 2"; None where more do, or where devices do.

    The number of replicas and of micro-batches follows from the rest, stages of a rank from another
    schedule, and the sharding from whether there is a pipeline.
    """
    if mine.cluster != other.cluster:
        return None
    follow = ["dp", "microbatches", "shard"]
    if mine.plan.schedule != other.plan.schedule:
        follow.append("virtual")
    names = [field.name for field in fields(Parallelism) if field.name not in follow]
    found = [name for name in names if getattr(mine.plan, name) != getattr(other.plan, name)]
    own, others = dict(mine.more), dict(other.more)
    beside = [n for n in sorted({*own, *others}) if own.get(n) != others.get(n)]
    if not found and len(beside) == 1:
        usual = DIMENSIONS.get(beside[0]).values[0]
        return f"{beside[0]} {own.get(beside[0], usual)} → {others.get(beside[0], usual)}"
    if beside:
        return None
    if mine.plan.pp == 1 or other.plan.pp == 1:
        found = [name for name in found if name != "fsdp" or "pp" not in found]
    if len(found) != 1:
        return None
    return f"{found[0]} {getattr(mine.plan, found[0])} → {getattr(other.plan, found[0])}"


def near(mine: Parallelism, other: Parallelism) -> bool:
    """Whether each degree is the same, half or double."""
    pairs = [(getattr(mine, n), getattr(other, n)) for n in ("tp", "pp", "cp", "ep")]
    pairs += [(getattr(mine, n), getattr(other, n)) for n in ("virtual", "microbatch")]
    return all(a in (b, 2 * b) or b == 2 * a for a, b in pairs)


def neighbours(
    best: Judged,
    simulated: Sequence[Judged],
    found: Sequence[Candidate],
    scores: Scores,
    steps: Mapping[int, float],
    goal: str,
) -> tuple[Neighbour, ...]:
    """All that are one decision away, the best for the goal first.

    What was not simulated has the quick score's figures, scaled by what it was off for the choice.

    Args:
        best: the choice.
        simulated: all that were, whether they fit or not.
        found: every candidate, in the order of `scores`.
        scores: of all candidates.
        steps: composed steps, by place in `found`.
        goal: one of `gpuscope.planning.figures.registry.goals`.
    """
    exact = {each.candidate: each for each in simulated}
    own = found.index(best.candidate)
    slower = best.step_s / _quick_s(own, scores, steps)
    fuller = best.peak_bytes / float(scores.estimate_bytes[own])
    mine = best.value(goal)
    away: list[Neighbour] = []
    for n, each in enumerate(found):
        change = changed(best.candidate, each)
        if change is None or not near(best.candidate.plan, each.plan):
            continue
        known = exact.get(each)
        quick = known or _as_quick(best, each, _quick_s(n, scores, steps) * slower)
        value = quick.value(goal)
        away.append(
            Neighbour(
                change=change,
                candidate=each,
                more=value / mine - 1 if value is not None and mine else None,
                peak_bytes=known.peak_bytes if known else float(scores.estimate_bytes[n]) * fuller,
                usable_bytes=best.usable_bytes,
                rank=known.rank if known else None,
            )
        )
    return tuple(sorted(away, key=lambda each: (each.more is None, each.more, each.change)))


def _quick_s(n: int, scores: Scores, steps: Mapping[int, float]) -> float:
    return steps.get(n, float(scores.estimate_s[n]))


def _as_quick(best: Judged, candidate: Candidate, step_s: float) -> Judged:
    """The choice's figures for another step; power is taken to be the same."""
    longer = step_s / best.step_s
    return replace(
        best,
        candidate=candidate,
        step_s=step_s,
        energy_j=None if best.energy_j is None else best.energy_j * longer,
        usd=None if best.usd is None else best.usd * longer,
    )
