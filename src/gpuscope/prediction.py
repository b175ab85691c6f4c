"""From what was captured to a `Run`: cost, simulate, analyse; one program or a job's ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuscope.analysis import analyze
from gpuscope.analysis.limiters import with_limiters
from gpuscope.analysis.types import Analysis
from gpuscope.cost.anew import Made, costed_anew
from gpuscope.cost.engine import costed_together
from gpuscope.cost.power import clocks_together, step_energy
from gpuscope.cost.skew import DEVICE_BOUND, HOST_BOUND, Waiting, waiting
from gpuscope.cost.types import CostedProgram
from gpuscope.document.quantities import Seconds
from gpuscope.document.text import Text
from gpuscope.hardware import Calibration, Cluster, Distance
from gpuscope.outcomes import with_outcomes
from gpuscope.program.types import XLA, Program
from gpuscope.program.world import RankPrograms
from gpuscope.run import Basis, JobPlace, RankResult, Run
from gpuscope.run.figures import catalogue_host
from gpuscope.timeline import attach_memory, simulate, simulate_memory
from gpuscope.timeline.contention import DeviceOverlap
from gpuscope.timeline.memory import MemoryTrace
from gpuscope.timeline.simulate import walked
from gpuscope.timeline.uncertainty import walked_interval

if TYPE_CHECKING:
    from gpuscope.timeline.simulate_ranks import RankSimulation

__all__ = ["predict_job", "predict_program"]

HOST_SHARE = 0.95
"""A step whose host works for this share of it or more has the host's variability."""


@dataclass(frozen=True, slots=True)
class _Costed:
    """One program as a device runs it."""

    program: Program
    alone: CostedProgram
    limited: CostedProgram
    memory: MemoryTrace


def predict_captured(
    captured: Program | RankPrograms,
    cluster: Cluster,
    constants: Calibration,
    strict: bool = False,
    outcomes: bool = True,
) -> Run:
    """Predict what was captured: one program, or every distinct rank of a job.

    Args:
        captured, cluster, constants, strict: see `predict_program`.
        outcomes: predict the step anew with each finding's advice taken; most of the time that a
            prediction takes, and of no use where nobody reads the findings.
    """
    if isinstance(captured, RankPrograms):
        return predict_job(captured, cluster, constants, strict, outcomes)
    return predict_program(captured, cluster, constants, strict, outcomes)


@costed_together()
def predict_program(
    program: Program,
    cluster: Cluster,
    constants: Calibration,
    strict: bool = False,
    outcomes: bool = True,
) -> Run:
    """Predict one device's step; a cluster of several runs copies that do not talk.

    Args:
        program: as captured.
        cluster: what it runs on.
        constants: calibrated constants for the cluster's device.
        strict: refuse what has no kernel model.
        outcomes: see `predict_captured`.

    Raises:
        UnsupportedError: the device lacks a dtype that the program needs.
        CaptureError: an operator without a model, under `strict`.
    """
    device = cluster.device
    costed = _costed(program, cluster, constants, strict)
    overlap = DeviceOverlap.of(device, constants)
    done = walked(costed.limited, overlap=overlap)
    simulation = simulate(costed.limited, done=done)
    low, high = walked_interval(costed.limited, done.schedule, done.walk, done.used)
    timeline = with_limiters(attach_memory(simulation.timeline, costed.memory), device)
    analysis = analyze(
        timeline,
        program=costed.program,
        on=device,
        memory=costed.memory,
        step_time_s=simulation.step_time_s,
        calibration=constants,
        step_energy=step_energy(costed.alone, device, constants, simulation.step_time_s),
    )
    if outcomes:
        told = with_outcomes(analysis.findings, program, timeline, cluster, constants, done)
        analysis = replace(analysis, findings=told)
    run = Run(
        name=program.name,
        target=device.name,
        device_id=device.id,
        origin="predicted",
        step_time_s=simulation.step_time_s,
        step_time_interval_s=(low, high),
        device_busy_s=_busy_s(analysis, 0),
        host_busy_s=simulation.host_busy_s,
        peak_memory_bytes=None,
        reserved_memory_bytes=None,
        energy_j=None,
        fits=None,
        timeline=timeline,
        analysis=analysis,
        samples=program.samples,
        tokens=program.tokens,
        basis=Basis(program, cluster, constants, holder=costed.program),
    )
    copies = cluster.n_devices > 1 and program.world_size == 1
    said = (
        (
            Text(
                "No collective in the program: each of the {n_devices} devices runs its own copy.",
                n_devices=cluster.n_devices,
            ),
        )
        if copies
        else ()
    )
    return _completed(run, costed, constants, (*said, *cluster.assumptions))


@costed_together()
def predict_job(
    programs: RankPrograms,
    cluster: Cluster,
    constants: Calibration,
    strict: bool = False,
    outcomes: bool = True,
) -> Run:
    """Predict a job of many ranks: its distinct ranks simulated together, equal ones once.

    The result describes the first distinct rank (breakdowns, findings, energy) and the whole job
    (step time, waits, `Run.rank_results`); its timeline holds every distinct rank.

    Args:
        programs: the distinct ranks, captured.
        cluster: what they run on, one device a rank.
        constants: calibrated constants for the cluster's device.
        strict: refuse what has no kernel model.
        outcomes: see `predict_captured`.

    Raises:
        UnsupportedError: the device lacks a dtype that a program needs.
        HangError: the ranks would wait for each other for ever.
    """
    # What plays several ranks: one device's step needs none of it.
    from gpuscope.timeline.pipeline_anew import ranks_anew
    from gpuscope.timeline.rank_walk import build_job
    from gpuscope.timeline.simulate_ranks import simulate_ranks
    from gpuscope.timeline.uncertainty_ranks import job_time_interval

    device = cluster.device
    costed = [
        _with_memory(made, cluster)
        for made in ranks_anew(programs, device, constants, cluster, strict=strict)
    ]
    limited = [each.limited for each in costed]
    overlap = DeviceOverlap.of(device, constants)
    simulation = simulate_ranks(limited, programs.members, overlap=overlap)
    late = _lateness(simulation, programs.world_size, _talks(programs))
    skew_s = (late.mean_s - late.low_s, late.high_s - late.mean_s)
    low, high = job_time_interval(
        build_job(limited, programs.members), overlap=overlap, skew_s=skew_s
    )
    step_s = simulation.step_time_s + late.mean_s
    first, fullest = costed[0], _fullest(costed)
    at = next(n for n, each in enumerate(costed) if each is fullest)
    holder_op = sum(len(each.limited.ops) for each in costed[:at])
    drawn = attach_memory(simulation.timeline, fullest.memory, holder_op)
    timeline = with_limiters(drawn, device)
    analysis = analyze(
        timeline,
        program=first.program,
        on=device,
        memory=fullest.memory,
        step_time_s=step_s,
        calibration=constants,
        chance_s=late.mean_s,
        step_energy=step_energy(first.alone, device, constants, step_s),
        fullest=fullest.program.rank,
    )
    if outcomes and len(costed) == 1:
        (program,) = programs.programs
        one = walked(first.limited, overlap=overlap)
        told = with_outcomes(
            analysis.findings, program, timeline, cluster, constants, one, late.mean_s
        )
        analysis = replace(analysis, findings=told)
    by_rank = {each.rank: each for each in simulation.ranks}
    own = by_rank[first.program.rank]
    run = Run(
        name=first.program.name,
        target=f"{cluster.n_devices}× {device.name}",
        device_id=device.id,
        origin="predicted",
        step_time_s=step_s,
        step_time_interval_s=(low + late.mean_s, high + late.mean_s),
        device_busy_s=_busy_s(analysis, own.rank),
        host_busy_s=own.host_busy_s,
        peak_memory_bytes=None,
        reserved_memory_bytes=None,
        energy_j=None,
        fits=None,
        timeline=timeline,
        analysis=analysis,
        ranks=tuple(sorted(by_rank)),
        samples=first.program.samples,
        tokens=first.program.tokens,
        world_size=programs.world_size,
        rank_results=_rank_results(
            costed, programs, simulation, analysis, cluster, constants, step_s
        ),
        place=_place(cluster),
        basis=Basis(programs, cluster, constants, late.mean_s, fullest.program, holder_op),
    )
    return _completed(
        run,
        fullest,
        constants,
        (*_waiting_words(late), *_own_assumptions(costed), *cluster.assumptions),
        first.program,
    )


def _costed(program: Program, cluster: Cluster, constants: Calibration, strict: bool) -> _Costed:
    made = costed_anew(program, cluster.device, constants, cluster, strict=strict)
    return _with_memory(made, cluster)


def _with_memory(made: Made, cluster: Cluster) -> _Costed:
    memory = simulate_memory(made.program, capacity_bytes=cluster.device.memory_usable_bytes)
    return _Costed(made.program, made.alone, made.costed, memory)


def _completed(
    run: Run,
    costed: _Costed,
    constants: Calibration,
    assumptions: Sequence[str],
    program: Program | None = None,
) -> Run:
    """The run with its memory, energy, origins and assumptions."""
    usable = costed.memory.capacity_bytes
    whose = catalogue_host(constants, run.step_time_s, run.host_busy_s, run.device_busy_s)
    assumptions = (*((whose,) if whose else ()), *costed.limited.assumptions, *assumptions)
    interval_s = run.step_time_interval_s
    if ":" in run.device_id:
        from gpuscope.hardware.shares import widened

        low, high, why = widened(
            run.device_id, run.step_time_s, *interval_s, run.device_busy_s or 0.0
        )
        interval_s, assumptions = (low, high), (*((why,) if why else ()), *assumptions)
    known = not costed.program.compiled and costed.program.engine in ("", XLA)
    measured = constants.distance is Distance.SAME_DEVICE and known
    origin = "calibrated" if measured else "estimated"
    return replace(
        run,
        step_time_interval_s=interval_s,
        peak_memory_bytes=costed.memory.peak_allocated_bytes,
        reserved_memory_bytes=costed.memory.peak_reserved_bytes,
        energy_j=_energy_j(run.analysis),
        fits=usable is None or costed.memory.peak_allocated_bytes <= usable,
        program=program or costed.program,
        evidence=constants.evidence,
        assumptions=clocks_together(assumptions),
        origins={
            "step_time_s": origin,
            "device_busy_s": origin,
            "host_busy_s": origin,
            "peak_memory_bytes": "calibrated",
            "reserved_memory_bytes": "estimated",
            "energy_j": origin,
        },
    )


def _busy_s(analysis: Analysis, rank: int) -> float:
    """Device time of a rank's step, as the timeline has it."""
    time = analysis.time.get(rank)
    return 0.0 if time is None else time.busy_s


def _energy_j(analysis: Analysis) -> float | None:
    return analysis.energy.total_j if analysis.energy else None


def _fullest(costed: Sequence[_Costed]) -> _Costed:
    """The rank that needs most memory; the first of equals."""
    return max(costed, key=lambda each: each.memory.peak_allocated_bytes)


def _talks(programs: RankPrograms) -> bool:
    """Whether ranks meet at all."""
    return any(op.group >= 0 or op.peer >= 0 for p in programs.programs for op in p.ops)


def _lateness(simulation: RankSimulation, ranks: int, talks: bool) -> Waiting:
    """What a step waits for its slowest rank, beyond what is known of each."""
    if not talks:
        return Waiting(0.0, 0.0, 0.0, ranks)
    step_s = simulation.step_time_s
    hosted = max(rank.host_busy_s for rank in simulation.ranks) >= HOST_SHARE * step_s
    return waiting(ranks, step_s, HOST_BOUND if hosted else DEVICE_BOUND)


def _waiting_words(late: Waiting) -> tuple[str, ...]:
    if not late.mean_s:
        return ()
    return (
        Text(
            "Ranks vary by chance: waiting for the last of {ranks} is taken as {mean} a step "
            "({low} to {high}).",
            ranks=late.last_of,
            mean=Seconds(late.mean_s),
            low=Seconds(late.low_s),
            high=Seconds(late.high_s),
        ),
    )


def _place(cluster: Cluster) -> JobPlace:
    return JobPlace(
        devices_per_node=cluster.devices_per_node,
        domain_devices=cluster.scale_up_domain_devices,
        within=cluster.scale_up.name if cluster.scale_up else "",
        between=cluster.scale_out.name if cluster.scale_out else "",
        price_usd_per_hour=cluster.price_usd_per_hour,
    )


def _own_assumptions(costed: Sequence[_Costed]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(a for each in costed for a in each.limited.assumptions))


def _rank_results(
    costed: Sequence[_Costed],
    programs: RankPrograms,
    simulation: RankSimulation,
    analysis: Analysis,
    cluster: Cluster,
    constants: Calibration,
    step_s: float,
) -> tuple[RankResult, ...]:
    """What each distinct rank does; times on the device are those of the timeline."""
    by_rank = {each.rank: each for each in simulation.ranks}
    results = []
    for each, members in zip(costed, programs.members, strict=True):
        own = by_rank[each.program.rank]
        energy = step_energy(each.alone, cluster.device, constants, step_s)
        peak, time = each.memory.peak_allocated_bytes, analysis.time.get(own.rank)
        results.append(
            RankResult(
                rank=own.rank,
                members=members,
                device_busy_s=_busy_s(analysis, own.rank),
                host_busy_s=own.host_busy_s,
                communication_s=0.0 if time is None else time.communication_s,
                exposed_communication_s=0.0 if time is None else time.exposed_communication_s,
                waiting_s=dict(own.waiting_s),
                peak_memory_bytes=peak,
                reserved_memory_bytes=each.memory.peak_reserved_bytes,
                fits=peak <= cluster.device.memory_usable_bytes,
                energy_j=None if energy is None else energy.total_j,
            )
        )
    return tuple(results)
