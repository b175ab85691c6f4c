"""When everything happens on several ranks: distinct ranks together, equal ones once.

Each distinct program is walked as one rank that stands for all that run it, so thousands of equal
ranks cost as one. Where ranks differ (stages of a pipeline, a slow host, another device) they wait
for each other in the collectives, sends and receives that they share (`gpuscope.timeline.match`),
and the job's period is what comes out of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuscope.cost.types import CostedProgram
from gpuscope.timeline.contention import Beside, Overlap, settle
from gpuscope.timeline.drawing import begin_s, build_timeline
from gpuscope.timeline.intervals import merge as union
from gpuscope.timeline.intervals import subtraction
from gpuscope.timeline.message_columns import Naming
from gpuscope.timeline.places import group_labels
from gpuscope.timeline.rank_walk import Job, build_job, walk_job
from gpuscope.timeline.ranks import merge, with_rank
from gpuscope.timeline.schedule import Schedule
from gpuscope.timeline.types import Ints, Timeline
from gpuscope.timeline.walk import Pace, Walk

NS = 1e-9


@dataclass(frozen=True, slots=True)
class SimulatedRank:
    """One rank's steady step.

    Attributes:
        rank: the rank that was captured.
        members: the ranks that it stands for, itself included.
        step_time_s: its period; that of the job where the ranks meet in each step.
        device_busy_s: union of its device work, waiting inside communication included.
        idle_s: the rest of the step.
        host_busy_s: time its host works.
        communication_s: union of its communication.
        exposed_communication_s: communication not under kernels, copies or memsets.
        waiting_s: inside communication for other ranks to come, by group's label; each
            communicator counts for itself.
    """

    rank: int
    members: tuple[int, ...]
    step_time_s: float
    device_busy_s: float
    idle_s: float
    host_busy_s: float
    communication_s: float
    exposed_communication_s: float
    waiting_s: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RankSimulation:
    """A simulated steady step of a job.

    Attributes:
        timeline: events of the last simulated step of every distinct rank, on one clock.
        step_time_s: the job's period: from the last rank's completion of a step to that of the
            next.
        first_step_s: the first step, from idle hosts and devices to the end of the last one's work.
        ranks: each distinct rank, by rising number.
    """

    timeline: Timeline
    step_time_s: float
    first_step_s: float
    ranks: tuple[SimulatedRank, ...]


def simulate_ranks(
    costed: Sequence[CostedProgram],
    members: Sequence[tuple[int, ...]],
    steps: int = 3,
    *,
    paces: Sequence[Pace] = (),
    overlap: Overlap | None = None,
) -> RankSimulation:
    """Simulate the distinct ranks of a job together.

    Args:
        costed: each distinct program (`RankPrograms.programs`, costed).
        members: the ranks that run it (`RankPrograms.members`).
        steps: how many steps to walk at least; a few more if the period is not steady yet.
        paces: how each class differs from what was costed: a slower host or device, lateness at
            the begin of each step; none: not at all.
        overlap: how collectives and kernels that run at the same time slow each other
            (`contention.DeviceOverlap`); None: not at all.

    Raises:
        InvalidValueError: programs and members do not fit together, or `steps` is less than 1.
        HangError: the ranks would wait for each other for ever.
    """
    job = build_job(costed, members)
    walks, paces = contended_walks(job, steps, paces, overlap)
    order = sorted(range(len(walks)), key=lambda n: job.costed[n].program.rank)
    return RankSimulation(
        timeline=draw_job(job, walks),
        step_time_s=job_period_s(walks),
        first_step_s=max(walk.ends_s[0] for walk in walks),
        ranks=tuple(_rank(job, n, walks[n], paces[n]) for n in order),
    )


def contended_walks(
    job: Job, steps: int, paces: Sequence[Pace], overlap: Overlap | None
) -> tuple[Sequence[Walk], Sequence[Pace]]:
    """Walk ranks whose tasks slow each other; also their paces with the times that tasks take.

    Arguments and errors as `simulate_ranks`.
    """
    own = paces or [Pace()] * len(job.costed)

    def with_times(times: Sequence[Beside]) -> list[Pace]:
        return [
            replace(pace, duration_s=each.duration_s, held_s=each.held_s)
            for pace, each in zip(own, times, strict=True)
        ]

    walks, used = settle(
        job.schedules, lambda times: walk_job(job, steps, with_times(times)), overlap
    )
    return walks, with_times(used)


def job_period_s(walks: Sequence[Walk]) -> float:
    """From the completion of a step on all ranks to that of the next."""
    last = max(walk.ends_s[-1] for walk in walks)
    before = max(walk.ends_s[-2] if len(walk.ends_s) > 1 else 0.0 for walk in walks)
    return last - before


def draw_job(job: Job, walks: Sequence[Walk]) -> Timeline:
    """The last step of every distinct rank as one timeline, lanes and steps with their ranks."""
    origin_s = min(begin_s(walk) for walk in walks)
    drawn = {
        rank: costed.program.rank
        for costed, ranks in zip(job.costed, job.members, strict=True)
        for rank in ranks
    }
    parts = []
    for n, (costed, walk) in enumerate(zip(job.costed, walks, strict=True)):
        rank = costed.program.rank
        part = build_timeline(
            costed,
            job.schedules[n],
            walk,
            origin_s=origin_s,
            naming=Naming(job.coupling.groups[n], drawn),
            notes=job.coupling.notes,
        )
        parts.append(replace(with_rank(part, rank), stands_for={rank: job.members[n]}))
    return merge(parts)


def _rank(job: Job, number: int, walk: Walk, pace: Pace) -> SimulatedRank:
    schedule, costed = job.schedules[number], job.costed[number]
    rows = np.flatnonzero(schedule.kernel >= 0)
    start = np.rint(walk.start_s[rows] * 1e9).astype(np.int64)
    end = np.rint(walk.end_s[rows] * 1e9).astype(np.int64)
    talks = np.isin(np.array(schedule.queue, np.int64)[rows], list(schedule.links))
    talking, working = union(start[talks], end[talks]), union(start[~talks], end[~talks])
    busy_s = _length(union(start, end)) * NS
    return SimulatedRank(
        rank=costed.program.rank,
        members=job.members[number],
        step_time_s=walk.period_s,
        device_busy_s=busy_s,
        idle_s=walk.period_s - busy_s,
        host_busy_s=schedule.host_step_s * pace.host,
        communication_s=_length(talking) * NS,
        exposed_communication_s=_length(subtraction(talking, working)) * NS,
        waiting_s=_waiting(job, number, walk, schedule, pace),
    )


def _length(intervals: tuple[Ints, Ints]) -> int:
    return int((intervals[1] - intervals[0]).sum())


def _waiting(job: Job, number: int, walk: Walk, schedule: Schedule, pace: Pace) -> dict[str, float]:
    """Time that calls take beyond their own duration, by group's label, most first."""
    labels = group_labels(job.coupling.groups[number])
    durations = pace.times_s(schedule)
    found: dict[str, float] = {}
    for row in job.meetings[number]:
        op = job.costed[number].ops[int(schedule.op[row])].op
        label = labels[op.group] if 0 <= op.group < len(labels) else "sends"
        spent = float(walk.end_s[row] - walk.start_s[row] - durations[row])
        found[label] = found.get(label, 0.0) + max(0.0, spent)
    return dict(sorted(found.items(), key=lambda item: -item[1]))
