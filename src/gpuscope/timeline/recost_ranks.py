"""A job's step on another machine, quickly: every distinct rank costed anew, no events.

What `gpuscope.timeline.recost` is to one program. For scaling curves: captures are used again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan

from gpuscope.cost.anew import Made
from gpuscope.document.printable import counted, short_repr
from gpuscope.document.quantities import Seconds
from gpuscope.hardware import Calibration, Cluster, Device, calibration_for
from gpuscope.program.types import Category
from gpuscope.program.world import RankPrograms
from gpuscope.timeline.contention import DeviceOverlap
from gpuscope.timeline.pipeline_anew import ranks_anew
from gpuscope.timeline.rank_walk import build_job
from gpuscope.timeline.recost import STEPS, average_w, peak_memory, work_of
from gpuscope.timeline.simulate_ranks import contended_walks, job_period_s
from gpuscope.timeline.uncertainty_ranks import job_time_interval
from gpuscope.timeline.walk import Pace


@dataclass(frozen=True, slots=True)
class RecostedRank:
    """One distinct rank on a machine.

    Attributes:
        rank: the rank that was captured.
        members: how many ranks it stands for, itself included.
        average_w: power of its device over the step; None where the board's power is not known.
        peak_memory_bytes: allocated; None where it was not asked for.
        fits: whether every allocation finds room; None as above.
        moved_bytes: across its device's memory.
        at_peak: bytes by category at the peak, largest first; empty where memory was not asked for.
    """

    rank: int
    members: int
    average_w: float | None
    peak_memory_bytes: int | None
    fits: bool | None
    moved_bytes: float = 0.0
    at_peak: tuple[tuple[Category, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RecostedJob:
    """A job's step on a machine.

    Attributes:
        step_time_s: period of a steady step.
        low_s, high_s: its 80 % interval; None where it was not asked for.
        ranks: each distinct rank.
    """

    step_time_s: float
    low_s: float | None
    high_s: float | None
    ranks: tuple[RecostedRank, ...]

    def __repr__(self) -> str:
        ranks = counted(len(self.ranks), "distinct rank")
        return short_repr(self, "", f"step {Seconds(self.step_time_s)}", ranks)

    @property
    def energy_j(self) -> float | None:
        """Energy of a step on all devices; None where the power is not known."""
        total_w = 0.0
        for rank in self.ranks:
            if rank.average_w is None:
                return None
            total_w += rank.average_w * rank.members
        return total_w * self.step_time_s

    @property
    def fullest(self) -> RecostedRank | None:
        """The rank that needs most memory; None where memory was not asked for."""
        known = [rank for rank in self.ranks if rank.peak_memory_bytes is not None]
        return max(known, key=lambda rank: rank.peak_memory_bytes or 0, default=None)


def recost_ranks(
    programs: RankPrograms,
    device: Device,
    calibration: Calibration | None = None,
    *,
    cluster: Cluster | None = None,
    paces: Sequence[Pace] = (),
    interval: bool = False,
    memory: bool = False,
    skew_s: tuple[float, float] = (0.0, 0.0),
    waiting: float = 0.0,
    most_bytes: float = inf,
) -> RecostedJob:
    """Cost a job's distinct programs anew on a device and simulate them together.

    Args:
        programs: as captured.
        device, calibration, cluster, memory: as `recost` takes them.
        paces: how each class of ranks differs from what was costed; none: not at all.
        interval: compute the 80 % interval (six walks more).
        skew_s: as `job_time_interval` takes it.
        waiting: what a step waits for the slowest of ranks that vary by chance, as a share of its
            time without that (`gpuscope.cost.skew`).
        most_bytes: of memory, where that is simulated: where a rank takes more, the job is not
            walked, and its times are not numbers.

    Raises:
        UnsupportedError: the device lacks a dtype that a program computes in.
        HangError: the ranks would wait for each other for ever.
    """
    constants = calibration or calibration_for(device)
    made = ranks_anew(programs, device, constants, cluster)
    held = [peak_memory(each.program, device) if memory else (None, None, ()) for each in made]
    if any(peak is not None and peak > most_bytes for peak, *_ in held):
        return RecostedJob(nan, nan, nan, _ranks(programs, made, held, [None] * len(made)))
    overlap = DeviceOverlap.of(device, constants)
    job = build_job([each.costed for each in made], programs.members)
    walked = contended_walks(job, STEPS, paces, overlap)
    walks = walked[0]
    waited_s = job_period_s(walks) * waiting
    step_s = job_period_s(walks) + waited_s
    low_s = high_s = None
    if interval:
        low, high = job_time_interval(job, STEPS, skew_s=skew_s, done=walked)
        low_s, high_s = low + waited_s, high + waited_s
    watts = [average_w(each.alone, device, constants, step_s) for each in made]
    return RecostedJob(step_s, low_s, high_s, _ranks(programs, made, held, watts))


def _ranks(
    programs: RankPrograms,
    made: Sequence[Made],
    held: Sequence[tuple[int | None, bool | None, tuple[tuple[Category, int], ...]]],
    watts: Sequence[float | None],
) -> tuple[RecostedRank, ...]:
    """Each distinct rank, with its memory and its power."""
    ranks = []
    for each, members, (peak, fits, at_peak), power in zip(
        made, programs.members, held, watts, strict=True
    ):
        moved, _ = work_of(each.costed)
        rank = each.program.rank
        ranks.append(RecostedRank(rank, len(members), power, peak, fits, moved, at_peak))
    return tuple(ranks)
