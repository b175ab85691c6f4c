"""How sure a job's predicted step time is: what `gpuscope.timeline.uncertainty` is to one rank."""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.timeline.contention import Overlap
from gpuscope.timeline.rank_walk import Job, walk_job
from gpuscope.timeline.simulate_ranks import contended_walks, job_period_s
from gpuscope.timeline.uncertainty import Source, interval_around, paced, sources_of
from gpuscope.timeline.walk import Pace, Walk


def job_time_interval(
    job: Job,
    steps: int = 3,
    *,
    paces: Sequence[Pace] = (),
    overlap: Overlap | None = None,
    skew_s: tuple[float, float] = (0.0, 0.0),
    done: tuple[Sequence[Walk], Sequence[Pace]] | None = None,
) -> tuple[float, float]:
    """80 % interval (low_s, high_s) of a job's steady step time; contains the point estimate.

    Args:
        job: its distinct ranks (`rank_walk.build_job`).
        steps, paces, overlap: as `simulate_ranks` takes them.
        skew_s: how much less and how much more than in `paces` waiting for the last rank may cost
            a step (`cost.skew.waiting`), both 0 or more.
        done: what `contended_walks` gave for the same; None: it is walked here.

    Raises:
        InvalidValueError: `steps` is less than 1.
        HangError: the ranks would wait for each other for ever.
    """
    walks, base = done or contended_walks(job, steps, paces, overlap)

    def period_s(source: Source, upwards: bool) -> float:
        other = [
            paced(pace, costed, schedule, source, upwards)
            for pace, costed, schedule in zip(base, job.costed, job.schedules, strict=True)
        ]
        return job_period_s(walk_job(job, steps, other))

    return interval_around(job_period_s(walks), sources_of(job.schedules), period_s, skew_s)
