"""Stages of a pipeline that wait for each other."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import percent, seconds

LEAST_SHARE = 0.05
"""A bubble below this share of the step is small."""


@finding
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
    share, mean = percent(bubble_s / job.step_s), seconds(bubble_s)
    most, few = seconds(worst.bubble_s), seconds(least.bubble_s)
    return Finding(
        kind="pipeline_bubble",
        title=f"The pipeline's bubble takes {share} of the step: stages wait for each other.",
        evidence=f"The ranks wait {mean} a step on average: rank {worst.rank} most, {most}; rank "
        f"{least.rank} least, {few}.",
        max_gain_s=bubble_s,
        hint="More microbatches a step (a larger --global-batch, or a smaller --microbatch), fewer "
        "stages (--pp), several stages a rank (--schedule interleaved --virtual 2), or a schedule "
        "that splits the backward pass (--schedule zb).",
        title_zh=f"流水线气泡占一步的 {share}：各级互相等待。",
        evidence_zh=f"各进程平均每步等待 {mean}：rank {worst.rank} 最多，为 {most}；rank "
        f"{least.rank} 最少，为 {few}。",
        hint_zh="增加每步的微批次数（更大的 --global-batch 或更小的 --microbatch），减少级数"
        "（--pp），每个进程放多级（--schedule interleaved --virtual 2），或使用拆分反向传播的调度"
        "（--schedule zb）。",
    )
