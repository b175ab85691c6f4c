"""`analyze`: everything that a timeline says about where its time and memory go, and why."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuscope.analysis import breakdown
from gpuscope.analysis.account import account, losses
from gpuscope.analysis.beside import second_thread
from gpuscope.analysis.columns import KernelColumns, OpColumns
from gpuscope.analysis.copies import copies, pageable_ways
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.critical_path import CriticalPath, critical_path, last_arrivals
from gpuscope.analysis.device_of import works_on_host
from gpuscope.analysis.energy import Constants, energy
from gpuscope.analysis.explained import with_explained
from gpuscope.analysis.findings import Facts, findings
from gpuscope.analysis.fit import FitOption, fit_options
from gpuscope.analysis.grouping import kernel_groups
from gpuscope.analysis.host_activity import HostActivity, Hosts
from gpuscope.analysis.idle import IdlePieces, causes_of, idle_pieces
from gpuscope.analysis.idle_spots import IdleSpot, idle_spots
from gpuscope.analysis.job_types import JobStory
from gpuscope.analysis.launches import Launches, launches
from gpuscope.analysis.memory import memory_story
from gpuscope.analysis.modules import module_shares
from gpuscope.analysis.recorded_types import (
    Communication,
    RankStory,
    StepSpread,
    Trust,
    waiting_share,
)
from gpuscope.analysis.roofline import roofline
from gpuscope.analysis.roofs import Roofs
from gpuscope.analysis.steps import CHANCE, StepTime, fit_step
from gpuscope.analysis.tasks import tasks
from gpuscope.analysis.time_classes import NS, rank_times
from gpuscope.analysis.types import Analysis, MemoryStory, RankTime, Share
from gpuscope.analysis.utilisation import utilisation
from gpuscope.analysis.window import (
    OPERATOR,
    DeviceWork,
    Window,
    choose_window,
    device_ranks,
    device_work,
    host_window,
    rank_rows,
    talks,
)
from gpuscope.cost.power import StepEnergy
from gpuscope.hardware.device import Device
from gpuscope.program.types import Program
from gpuscope.renamed import renamed
from gpuscope.timeline.memory import MemoryTrace
from gpuscope.timeline.types import Ints, Timeline

if TYPE_CHECKING:
    from gpuscope.analysis.collective_match import Match

# What only recordings need, or several ranks, is imported where they are met.

PATH_SEGMENTS = 2_000
"""Segments of the critical path that an analysis keeps; the shortest are joined."""


@renamed(device="on")
def analyze(
    timeline: Timeline,
    *,
    program: Program | None = None,
    on: Device | None = None,
    memory: MemoryTrace | None = None,
    step_time_s: float | None = None,
    calibration: Constants | None = None,
    fullest: int | None = None,
    chance_s: float = 0.0,
    step_energy: StepEnergy | None = None,
) -> Analysis:
    """Say what a timeline means. What it does not hold is None or empty in the result.

    Breakdowns, modules, roofline and the like describe one step of the first rank that has device
    work: the mean over the marked steps, else over those that its optimizer or its repeated kernels
    show, or the whole span of the device work where there is no step. `time` holds every rank.

    Args:
        timeline: predicted or measured; a recording's kernels are joined with the cost models
            first (see `gpuscope.analysis.modelled`).
        program: the captured program, for the module tree and what to do about memory.
        on: what it ran on, for roofs, energy and memory.
        memory: simulated memory; without it the timeline's memory counters are read.
        step_time_s: the step time where it is known better than from the timeline (measured
            without a profiler). Idle time is then scaled so that the breakdown adds up to it;
            where device work alone is longer, all device times are scaled instead.
        calibration: measured constants that replace estimates (see `gpuscope.analysis.energy`).
        fullest: the rank of a job that `memory` is of.
    """
    if timeline.recorded is not None:
        from gpuscope.analysis.found_steps import with_steps
        from gpuscope.analysis.modelled import modelled

        timeline = modelled(with_steps(timeline), on)
    ops, kernels = OpColumns.of(timeline), KernelColumns.of(timeline)
    ranks = device_ranks(timeline)
    rank = ranks[0] if ranks else _first_host(timeline)
    window = choose_window(timeline, rank) or Window(0, 0, 1)
    work = device_work(timeline, rank, window)
    hosts = Hosts(timeline, ops)
    host, issued = hosts(rank), host_window(timeline, rank, window)
    pieces = idle_pieces(timeline, work, host, ops)
    timed = _step_time(work, pieces, step_time_s, chance_s)
    roofs = Roofs(on)
    rows = breakdown.join(timeline, work, kernels, ops, roofs, timed.scale)
    groups = kernel_groups(rows)
    story = memory_story(timeline, memory, on)
    used = utilisation(rows, roofs, timed.step_s)
    basis = _Basis(timeline, rank, ranks, window, work, hosts, ops, pieces, timed, program, on)
    stories, times = _stories(basis)
    waits = waiting_share(stories.ranks, stories.communication, rank, stories.job)
    shared = {
        **{story.name: getattr(stories, story.name) for story in fields(stories)},
        "copies": copies(timeline, rank, device=on, work=work, kernels=kernels),
    }
    predicted = timeline.recorded is None
    lost = losses(rows, roofs, program, calibration, predicted=predicted)
    facts = Facts(
        step=timed,
        losses=lost,
        account=account(
            lost, rows, timed, rank=rank, predicted=predicted, job=stories.job, waiting=waits
        ),
        host_work_s=_host_work_s(host, issued),
        host_wait_s=_host_wait_s(timeline, rank, host, issued),
        syncs=_syncs(timeline, rank, host, window),
        rows=rows,
        roofs=roofs,
        memory=story,
        utilisation=used,
        program=program,
        fit=_fit(story, program),
        rank=rank,
        on_host=works_on_host(timeline, rank),
        fullest=fullest,
        pageable_ways=pageable_ways(timeline, work),
        **shared,
    )
    found = findings(facts)
    return Analysis(
        step_s=timed.step_s,
        time=times,
        classes=breakdown.classes(rows, timed.idle_s, waits),
        operators=breakdown.operators(rows, timeline),
        kinds=breakdown.kinds(rows),
        phases=breakdown.phases(rows),
        symbols=breakdown.symbols(rows, timeline) if timeline.recorded is not None else (),
        modules=module_shares(rows, program, _held(memory)),
        roofline=roofline(rows, groups, roofs),
        tasks=tasks(rows, groups),
        memory=story,
        energy=energy(rows, roofs, timed.step_s, calibration, step_energy),
        utilisation=used,
        findings=found,
        account=with_explained(facts.account, lost, rows, timed, [f.about for f in found]),
        host_work_s=_host_work_s(host, issued) if ranks else None,
        host=() if ranks else _host_alone(timeline, rank),
        **_of_a_recording(timeline, work, host),
        **shared,
    )


def _of_a_recording(timeline: Timeline, work: DeviceWork, host: HostActivity) -> dict[str, Any]:
    """What only a recording shows: late launches, and the small kernels that come in runs."""
    if timeline.recorded is None:
        return {}
    from gpuscope.analysis.kernel_sequences import kernel_sequences
    from gpuscope.analysis.launch_delays import launch_delays

    return {
        "launch_delays": launch_delays(timeline, work, host.launch),
        "sequences": kernel_sequences(timeline, work),
    }


@dataclass(frozen=True, slots=True)
class _Basis:
    """One step of one rank, as the analyses that stand for themselves start from it."""

    timeline: Timeline
    rank: int
    ranks: tuple[int, ...]
    window: Window
    work: DeviceWork
    hosts: Hosts
    ops: OpColumns
    pieces: IdlePieces
    timed: StepTime
    program: Program | None
    on: Device | None


@dataclass(frozen=True, slots=True)
class _Stories:
    """What the findings look at and the result holds, under the same names in both."""

    critical_path: CriticalPath | None
    idle_spots: tuple[IdleSpot, ...]
    launches: Launches | None
    trust: Trust | None
    ranks: RankStory | None
    communication: Communication | None
    step_spread: StepSpread | None
    job: JobStory | None


def _held(memory: MemoryTrace | None) -> dict[str, int] | None:
    """Memory at the peak by module; None where nothing says whose it is."""
    return dict(memory.by_module) if memory is not None and memory.by_module else None


def _stories(basis: _Basis) -> tuple[_Stories, Mapping[int, RankTime]]:
    """Run the analyses that do not need each other, those of one rank's host beside the rest."""
    timeline, rank, hosts = basis.timeline, basis.rank, basis.hosts
    chance_s = basis.timed.idle_s.get(CHANCE, 0.0)
    host = hosts(rank)
    match = _match(basis)
    with second_thread(len(timeline.events)) as ask:
        # Beside this thread what looks at one rank's host; here what may look at all of them.
        spots_of = ask(
            lambda: idle_spots(
                timeline,
                rank,
                work=basis.work,
                host=host,
                ops=basis.ops,
                pieces=basis.pieces,
                idle_s=sum(basis.timed.idle_s.values()) - chance_s,
            )
        )
        launched_of = ask(lambda: launches(timeline, rank, work=basis.work, launch=host.launch))
        trusted_of = ask(lambda: _trust(timeline, match))
        # Other ranks tell what a rank waits; one alone is held against what its bytes need.
        judged = (basis.on, basis.work, host) if len(basis.ranks) == 1 else ()
        talk_of = ask(lambda: _communication(timeline, rank, *judged))
        path = critical_path(
            timeline,
            rank,
            basis.window,
            hosts=hosts,
            last=_last(timeline, match),
            most=PATH_SEGMENTS,
        )
        meeting = _meeting(basis, match)
        times = rank_times(timeline, basis.ops, hosts, {rank: (basis.work, basis.pieces)})
        spread = _step_spread(basis)
        job = _job(basis, match)
        stories = _Stories(
            critical_path=_path_by_chance(path, chance_s),
            idle_spots=_spots_by_chance(spots_of(), basis.window, chance_s),
            launches=launched_of(),
            trust=trusted_of(),
            ranks=meeting,
            communication=talk_of(),
            step_spread=spread,
            job=job,
        )
    return stories, times


def _communication(timeline: Timeline, rank: int, *judged: Any) -> Communication | None:
    """A rank's collectives; None where none is on the timeline."""
    if not talks(timeline):
        return None
    from gpuscope.analysis.communication import communication

    return communication(timeline, rank, *judged)


def _match(basis: _Basis) -> Match | None:
    """The collectives of several ranks, matched; None of one rank."""
    if len(basis.ranks) < 2:
        return None
    from gpuscope.analysis.collective_match import match_collectives

    return match_collectives(basis.timeline)


def _meeting(basis: _Basis, match: Match | None) -> RankStory | None:
    """Who waits for whom; None of one rank."""
    if match is None:
        return None
    from gpuscope.analysis.ranks import ranks

    return ranks(basis.timeline, match, basis.ops, basis.hosts)


def _trust(timeline: Timeline, match: Match | None) -> Trust | None:
    """How far a recording can be trusted; None of a prediction."""
    if timeline.origin == "predicted":
        return None
    from gpuscope.analysis.trust import trust

    return trust(timeline, match=match)


def _step_spread(basis: _Basis) -> StepSpread | None:
    """How the steps of a recording differ; a prediction draws one."""
    if basis.timeline.origin == "predicted":
        return None
    from gpuscope.analysis.step_spread import step_spread

    return step_spread(basis.timeline, basis.ops, basis.hosts)


def _job(basis: _Basis, match: Match | None) -> JobStory | None:
    """Where a predicted job's step goes; None of anything else."""
    if not basis.timeline.stands_for:
        return None
    from gpuscope.analysis.job import job_story

    return job_story(
        basis.timeline, step_time_s=basis.timed.step_s, program=basis.program, match=match
    )


def _host_alone(timeline: Timeline, rank: int) -> tuple[Share, ...]:
    """Where the host's time went, of a recording without device work."""
    from gpuscope.analysis.host_operators import host_operators

    return host_operators(timeline, rank, choose_window(timeline, rank))


def _path_by_chance(path: CriticalPath | None, chance_s: float) -> CriticalPath | None:
    """The path with the waiting that no timeline shows, so that it is as long as the step."""
    if path is None or not chance_s:
        return path
    times = sorted([*path.time_s.items(), (CHANCE, chance_s)], key=lambda item: -item[1])
    return replace(path, time_s=dict(times), gain_s={**path.gain_s, CHANCE: chance_s})


def _spots_by_chance(
    spots: tuple[IdleSpot, ...], window: Window, chance_s: float
) -> tuple[IdleSpot, ...]:
    """The places of idle time with the waiting at the step's end that no timeline shows."""
    if not chance_s:
        return spots
    wait = IdleSpot(CHANCE, "", "", "", chance_s, 1, window.end_ns, chance_s)
    return tuple(sorted([*spots, wait], key=lambda spot: -spot.time_s))


def _first_host(timeline: Timeline) -> int:
    """The first rank of a recording without device work."""
    from gpuscope.timeline.ranks import ranks_of

    return next(iter(ranks_of(timeline)), 0)


def _step_time(
    work: DeviceWork, pieces: IdlePieces, step_time_s: float | None, chance_s: float
) -> StepTime:
    """Busy and idle seconds of one step."""
    per_step = NS / work.window.steps
    idle_s = {cause: ns * per_step for cause, ns in causes_of(pieces).items()}
    return fit_step(work.busy.total_ns * per_step, idle_s, step_time_s, chance_s)


def _host_work_s(host: HostActivity, window: Window) -> float | None:
    if not host.known:
        return None
    return host.work_ns(window.start_ns, window.end_ns) * NS / window.steps


def _host_wait_s(timeline: Timeline, rank: int, host: HostActivity, window: Window) -> float | None:
    """Seconds a step in synchronisations and the innermost operators around them."""
    if not host.known:
        return None
    events = timeline.events
    rows = np.flatnonzero(host.is_sync & rank_rows(timeline, rank))
    around = host.threads.nearest(rows, events.kind == OPERATOR)
    both = np.where(around >= 0, around, rows)
    cover = Cover.of(events.start_ns[both], events.end_ns[both])
    bounds = np.array([window.start_ns]), np.array([window.end_ns])
    return int(cover.within(*bounds)[0]) * NS / window.steps


def _syncs(
    timeline: Timeline, rank: int, host: HostActivity, window: Window
) -> tuple[tuple[str, int], ...]:
    """Names of the host's synchronisations with how many a step has, most first."""
    events = timeline.events
    rows = host.is_sync & rank_rows(timeline, rank)
    rows &= (events.start_ns < window.end_ns) & (events.end_ns > window.start_ns)
    tally = Tally(timeline.names[name] for name in events.name[rows].tolist())
    return tuple((name, max(1, round(n / window.steps))) for name, n in tally.most_common())


def _last(timeline: Timeline, match: Match | None) -> Ints | None:
    """By row of `Events`: the call of the rank that came last to the same collective."""
    if match is None or match.count == 0:
        return None
    return last_arrivals(match.calls.event, match.id, match.arrival_ns, len(timeline.events))


def _fit(story: MemoryStory | None, program: Program | None) -> tuple[FitOption, ...]:
    """What would make the step fit; nothing where it does."""
    return fit_options(story, program) if story is not None and story.missing_bytes else ()
