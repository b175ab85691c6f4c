"""Ranks of a predicted job that do not have the same amount of work."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.job_types import JobStory
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text

LEAST_SHARE = 0.05
"""What the fullest rank computes more than the mean, as a share of the step, below which it is
usual."""


@finding("imbalance", needs="", order=220)
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
        Percent(excess_s / job.step_s),
        Seconds(longest.compute_s),
        Seconds(shortest.compute_s),
    )
    return Finding(
        kind="imbalance",
        title=Text(
            "Work is uneven: rank {rank} computes {share} of the step longer than the ranks do on "
            "average.",
            rank=longest.rank,
            share=share,
        ),
        evidence=Text(
            "Rank {rank} ({count} equal ranks) computes {most}, rank {shortest} {least}; the "
            "others wait for it.",
            rank=longest.rank,
            count=longest.count,
            most=most,
            shortest=shortest.rank,
            least=least,
        ),
        max_gain_s=excess_s,
        about=facts.about(facts.losses.talk, explains_s=facts.term_s("waiting")),
        hint=Text(
            "Spread the work evenly: fewer layers on the stages with the embedding or the output "
            "head, equal batches, balanced experts."
        ),
    )


def _mean_compute_s(job: JobStory) -> float:
    return sum(rank.compute_s * rank.count for rank in job.ranks) / job.world_size
