"""Which candidates can still change an answer: only these are worth a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from gpuscope.planning.choice import choose, indistinct
from gpuscope.planning.types import Candidate, Judged, Question
from gpuscope.planning.verdicts import quick_value
from gpuscope.program.models.parallel.options import Parallelism

__all__ = ["for_the_front", "lost", "work_of"]

SLACK = 0.01
"""A composed step may be so much too long, beside what that of the best so far is: of twenty plans
of Llama 3.2 1B and 3.1 8B two were more, 1.2 % and, where the host sets the pace, 4.6 %."""

DEEP = 8
"""Pipelines of more stages than this may be `DEEP_SLACK` too long: of seven that were simulated
with 8 to 64 stages, Llama 3.1 70B and 405B, the most was 2.6 %, and 5.3 % too short."""

DEEP_SLACK = 0.04


def work_of(plan: Parallelism) -> int:
    """Passes of micro-batches through stages that are simulated of it; of no pipeline 1."""
    return 1 if plan.pp == 1 else plan.stages * min(plan.microbatches, 5 * plan.pp)


def for_the_front(question: Question) -> int:
    """Clusters whose best is simulated whatever it takes: half of what is simulated."""
    return max(1, question.simulated // 2)


def lost(
    question: Question, candidate: Candidate, composed_s: float | None, judged: Sequence[Judged]
) -> bool:
    """Whether a candidate can neither become the answer nor add a cluster to the front.

    It becomes that where it is the better one, or where it cannot be told from the best and is the
    simpler one, or as simple and before the choice.

    Args:
        question: what is asked.
        candidate: that was not simulated.
        composed_s: its composed step; None: it has none, and nothing is known of it.
        judged: those that were, and fit.
    """
    if composed_s is None or not judged:
        return False
    goal = question.goal
    least = min(judged, key=lambda each: each.value(goal) or inf)
    value = least.value(goal)
    if value is None:
        return False
    slack = DEEP_SLACK if candidate.plan.pp > DEEP else SLACK
    shortest_s = composed_s * (1 - slack) * min(1.0, least.step_s / least.scored_s)
    known = {each.candidate.cluster for each in judged}
    new = candidate.cluster not in known and len(known) < for_the_front(question)
    if new and not any(_beats(each, candidate, shortest_s) for each in judged):
        return False
    quick = quick_value(goal, candidate.cluster, shortest_s)
    if quick <= value:
        return False
    half = (least.high_s - least.low_s) / 2 / least.step_s
    same = candidate.cluster.device.id == least.candidate.cluster.device.id
    tie = indistinct(quick, half, value, half, same_device=same)
    best, _ = choose(judged, goal)
    mine = candidate.dimensions, candidate.devices, quick
    chosen = best.candidate.dimensions, best.candidate.devices, best.value(goal) or inf
    return not tie or mine >= chosen


def _beats(each: Judged, candidate: Candidate, shortest_s: float) -> bool:
    """Whether another candidate of the same device is quicker in fewer of its hours: cost and
    energy follow, the arithmetic being the same."""
    other = each.candidate
    if other.cluster.device.id != candidate.cluster.device.id:
        return False
    spent_s = other.devices * each.step_s
    return each.step_s <= shortest_s and spent_s <= candidate.devices * shortest_s
