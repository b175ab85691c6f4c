"""Which candidates can still change an answer: only these are worth a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from gpuscope.planning.choice import indistinct
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
    """Passes of micro-batches through stages that its two short steps have; of no pipeline 1."""
    return 1 if plan.pp == 1 else plan.stages * 5 * plan.pp


def for_the_front(question: Question) -> int:
    """Clusters whose best is simulated whatever it takes: half of what is simulated."""
    return max(1, question.simulated // 2)


def lost(
    question: Question, candidate: Candidate, composed_s: float | None, judged: Sequence[Judged]
) -> bool:
    """Whether a candidate can neither tie with the best so far nor add a cluster to the front.

    Args:
        question: what is asked.
        candidate: that was not simulated.
        composed_s: its composed step; None: it has none, and nothing is known of it.
        judged: those that were, and fit.
    """
    known = {each.candidate.cluster for each in judged}
    if composed_s is None or not known:
        return False
    if candidate.cluster not in known and len(known) < for_the_front(question):
        return False
    goal = question.goal
    least = min(judged, key=lambda each: each.value(goal) or inf)
    value = least.value(goal)
    if value is None:
        return False
    slack = DEEP_SLACK if candidate.plan.pp > DEEP else SLACK
    shortest_s = composed_s * (1 - slack) * min(1.0, least.step_s / least.scored_s)
    half = (least.high_s - least.low_s) / 2 / least.step_s
    quick = quick_value(goal, candidate.cluster, shortest_s)
    same = candidate.cluster.device.id == least.candidate.cluster.device.id
    return quick > value and not indistinct(quick, half, value, half, same_device=same)
