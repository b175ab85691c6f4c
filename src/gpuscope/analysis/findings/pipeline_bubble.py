"""Stages of a pipeline that wait for each other."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text

LEAST_SHARE = 0.05
"""A bubble below this share of the step is small."""


@finding("pipeline_bubble", needs="", order=210)
def pipeline_bubble(facts: Facts) -> Finding | None:
    """Applies when the ranks of a predicted job wait 5 % of the step for other pipeline stages.

    Gain: all of the bubble, the mean over the ranks; more microbatches come near it, but never
    all the way.
    """
    job = facts.job
    if job is None:
        return None
    bubble_s = job.mean_s("bubble")
    if bubble_s < LEAST_SHARE * job.step_s:
        return None
    worst = max(job.ranks, key=lambda rank: rank.bubble_s)
    least = min(job.ranks, key=lambda rank: rank.bubble_s)
    share, mean = Percent(bubble_s / job.step_s), Seconds(bubble_s)
    most, few = Seconds(worst.bubble_s), Seconds(least.bubble_s)
    return Finding(
        kind="pipeline_bubble",
        title=Text(
            "The pipeline's bubble takes {share} of the step: stages wait for each other.",
            share=share,
        ),
        evidence=Text(
            "The ranks wait {mean} a step on average: rank {rank} most, {most}; rank {other} "
            "least, {few}.",
            mean=mean,
            rank=worst.rank,
            most=most,
            other=least.rank,
            few=few,
        ),
        max_gain_s=bubble_s,
        about=facts.about(facts.losses.talk, explains_s=facts.term_s("bubble")),
        hint=Text(
            "More microbatches a step (a larger --global-batch, or a smaller --microbatch), fewer "
            "stages (--pp), several stages a rank (--schedule interleaved --virtual 2), or a "
            "schedule that splits the backward pass (--schedule zb)."
        ),
    )
