"""Ranks of a predicted job that do not have the same amount of work."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.job_types import JobStory
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import percent, seconds

LEAST_SHARE = 0.05
"""What the fullest rank computes more than the mean, as a share of the step, below which it is
usual."""


@finding
def imbalance(facts: Facts) -> Finding | None:
    """Applies when the rank that computes longest exceeds the mean by 5 % of the step.

    All ranks wait for it, in collectives or in the pipeline. Gain: the excess, as if the work were
    spread evenly.
    """
    job = facts.job
    if job is None or len(job.ranks) < 2:
        return None
    longest = max(job.ranks, key=lambda rank: rank.compute_s)
    excess_s = longest.compute_s - _mean_compute_s(job)
    if excess_s < LEAST_SHARE * job.step_s:
        return None
    shortest = min(job.ranks, key=lambda rank: rank.compute_s)
    share, most, least = (
        percent(excess_s / job.step_s), seconds(longest.compute_s), seconds(shortest.compute_s)
    )  # fmt: skip
    return Finding(
        kind="imbalance",
        title=f"Work is uneven: rank {longest.rank} computes {share} of the step longer than the "
        "ranks do on average.",
        evidence=f"Rank {longest.rank} ({longest.count} equal ranks) computes {most}, rank "
        f"{shortest.rank} {least}; the others wait for it.",
        max_gain_s=excess_s,
        hint="Spread the work evenly: fewer layers on the stages with the embedding or the output "
        "head, equal batches, balanced experts.",
        title_zh=f"工作量不均：rank {longest.rank} 的计算时间比各进程平均多出一步的 {share}。",
        evidence_zh=f"rank {longest.rank}（共 {longest.count} 个相同进程）计算 {most}，rank "
        f"{shortest.rank} 计算 {least}；其他进程在等它。",
        hint_zh="均匀分配工作：让含嵌入层或输出头的级少放几层，使各批量相等，使专家均衡。",
    )


def _mean_compute_s(job: JobStory) -> float:
    return sum(rank.compute_s * rank.count for rank in job.ranks) / job.world_size
