"""Communication that no computation hides."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.job_types import JobStory
from gpuscope.analysis.recorded_types import CollectiveWaiting
from gpuscope.analysis.types import Finding
from gpuscope.analysis.window import COMMUNICATION
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text, joined, verbatim

LEAST_SHARE = 0.10
"""Exposed communication below this share of the step is usual in well-tuned runs."""

LEAST_OF_JOB = 0.05
"""A predicted job's is no waiting, whatever the recording lacks: less of it can be told."""


@finding("communication_bound", needs="communication", order=30)
def communication_bound(facts: Facts) -> Finding | None:
    """Applies when exposed communication takes a tenth of the step or more.

    Gain: all of the exposed time, as if it were hidden under computation. Waiting for other ranks
    does not count, where other ranks' recordings (see `wait_for_rank`) or the collectives' expected
    times (see `collective_waiting`) tell it; else it is in the time. Of a predicted job
    it is the mean over all ranks, told by group.
    """
    if facts.job is not None:
        return _of_job(facts, facts.job)
    rows = facts.of_class("communication")
    exposed = facts.time_of(rows)
    moving = exposed * _transfer_share(facts)
    if facts.share(moving) < LEAST_SHARE:
        return None
    work = facts.rows.work
    events = work.kind == COMMUNICATION
    running = float((work.end_ns - work.start_ns)[events].sum()) * facts.rows.seconds
    share, count = Percent(facts.share(moving)), facts.count_of(events)
    waiting = Text("; this includes waiting for the slowest rank.")
    if facts.ranks is not None or _own_waiting(facts) is not None:
        left = Seconds(moving)
        waiting = Text("; {left} of that would stay if no rank had to wait.", left=left)
    return Finding(
        kind="communication_bound",
        title=Text(
            "Communication between devices takes {share} of the step with no computation beside "
            "it.",
            share=share,
        ),
        evidence=Text(
            "{count} collectives run for {running}, of which {exposed} are not hidden{waiting}",
            count=count,
            running=Seconds(running),
            exposed=Seconds(exposed),
            waiting=waiting,
        ),
        max_gain_s=moving,
        hint=_HINT,
        about=facts.about(facts.losses.talk, explains_s=moving),
    )


_HINT = Text(
    "Overlap it (prefetching all-gathers, buckets that start earlier), send less (bf16 gradients, "
    "sharding within a node), or do more work between two collectives (larger or accumulated "
    "batches)."
)


def _of_job(facts: Facts, job: JobStory) -> Finding | None:
    """The mean over all ranks of a predicted job, by group."""
    exposed_s = job.mean_s("exposed")
    if exposed_s < LEAST_OF_JOB * job.step_s:
        return None
    share = Percent(exposed_s / job.step_s)
    exposed = [part for part in job.parts if part.kind == "exposed"]
    listed = joined(verbatim(f"{part.label} {Seconds(part.time_s)}") for part in exposed)
    return Finding(
        kind="communication_bound",
        title=Text(
            "Communication between devices takes {share} of the step with no computation beside "
            "it.",
            share=share,
        ),
        evidence=Text(
            "Moving data, waiting left out, mean of {world_size} ranks: {listed}.",
            world_size=job.world_size,
            listed=listed,
        ),
        max_gain_s=exposed_s,
        hint=_HINT,
        about=facts.about(facts.losses.talk, explains_s=facts.term_s("communication")),
    )


def _own_waiting(facts: Facts) -> CollectiveWaiting | None:
    """What the only recorded rank waits, as its collectives' expected times tell."""
    talk = facts.communication
    return talk.waiting if facts.ranks is None and talk is not None else None


def _transfer_share(facts: Facts) -> float:
    """How much of this rank's exposed communication is transfer; 1 where that is not known.

    Transfer counts as far as it is exposed on the rank where it is hidden best: a rank that waits
    has nothing left to hide it under, which is the waiting's fault. Collectives that other ranks'
    recordings lack are taken to be like the others.
    """
    if (alone := _own_waiting(facts)) is not None:
        return 1.0 - alone.share
    if facts.ranks is None:
        return 1.0
    own = next((share for share in facts.ranks.ranks if share.rank == facts.rank), None)
    if own is None:
        return 1.0
    both = own.exposed_transfer_s + own.exposed_waiting_s
    best = min(share.exposed_transfer_s for share in facts.ranks.ranks)
    return min(1.0, best / both) if both > 0 else 1.0
