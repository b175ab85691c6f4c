"""The run's own step on other machines: its program, or all ranks of its job, costed anew.

What a run was predicted of and for (`Run.basis`) is what every figure of "What if" starts from, so
that the machine of the run gives the run's own step to the last digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuscope.hardware import Calibration, Cluster, Device
from gpuscope.hardware.cluster import build_cluster
from gpuscope.program.types import Program
from gpuscope.program.world import RankPrograms
from gpuscope.run import Run
from gpuscope.timeline.recost import recost


@dataclass(frozen=True, slots=True)
class Step:
    """The step on a machine.

    Attributes:
        step_time_s: period of a steady step; of a job, what it waits by chance included.
        low_s, high_s: its 80 % interval; None where it was not asked for.
        host_s: the period with another host, one for each factor that was asked for.
        moved_bytes: across the memory of one device; of a job the mean.
        energy_j: of all devices together; None where the power is not known.
        fits: whether every allocation finds room on every device; None where it was not asked for.
    """

    step_time_s: float
    low_s: float | None
    high_s: float | None
    host_s: tuple[float, ...]
    moved_bytes: float
    energy_j: float | None
    fits: bool | None


@dataclass(frozen=True, slots=True)
class Workload:
    """What is costed again and again.

    Attributes:
        captured: the program, or those of all distinct ranks of a job.
        cluster: what the run was predicted for.
        constants: the run's own, for machines that are its own but for some figures.
        waiting: of a job, what its step waits by chance, as a share of the rest.
    """

    captured: Program | RankPrograms
    cluster: Cluster
    constants: Calibration | None = None
    waiting: float = 0.0

    @classmethod
    def of(cls, run: Run, device: Device) -> Workload | None:
        """What a run is made of; None where that is not known, as of a run read from a file.

        Args:
            run: predicted.
            device: the catalogue's, for a run that does not say what it was predicted for.
        """
        basis = run.basis
        if basis is None:
            return None if run.program is None else cls(run.program, Cluster.of(device))
        waiting = basis.waiting_s / (run.step_time_s - basis.waiting_s) if basis.waiting_s else 0.0
        return cls(basis.captured, basis.cluster, basis.constants, waiting)

    @property
    def is_job(self) -> bool:
        """Whether it has ranks that are simulated together."""
        return isinstance(self.captured, RankPrograms)

    @property
    def operators(self) -> int:
        """Operators that are costed for one machine."""
        if isinstance(self.captured, Program):
            return len(self.captured.ops)
        stages = self.captured.pipeline.stages.values() if self.captured.pipeline else ()
        blocks = {id(blocks): len(blocks.program.ops) for blocks in stages}
        return sum(blocks.values()) + sum(len(program.ops) for program in self.captured.programs)

    def elsewhere(self, device: Device) -> Workload:
        """The same on as many of another device, with the catalogue's constants for it.

        Raises:
            InvalidValueError: so many of it cannot be connected.
        """
        same = device.id == self.cluster.device.id
        cluster = build_cluster(device, self.cluster.n_devices)
        return replace(self, cluster=cluster, constants=self.constants if same else None)

    def with_device(self, device: Device) -> Workload:
        """The same on a what-if device: its own, with some figures changed."""
        return replace(self, cluster=self.cluster.with_device(device))

    def step(
        self, *, interval: bool = False, memory: bool = False, host_factors: Sequence[float] = ()
    ) -> Step:
        """Cost it.

        Args:
            interval: compute the 80 % interval.
            memory: simulate the memory.
            host_factors: also the period with a host that takes so many times as long; of a job
                only 1.

        Raises:
            UnsupportedError: the device lacks a dtype that is computed in.
            HangError: ranks would wait for each other for ever.
        """
        device = self.cluster.device
        if isinstance(self.captured, Program):
            one = recost(
                self.captured,
                device,
                self.constants,
                cluster=self.cluster,
                host_factors=host_factors,
                interval=interval,
                memory=memory,
            )
            energy_j, moved = one.energy_j, one.moved_bytes
            return Step(
                one.step_time_s, one.low_s, one.high_s, one.host_s, moved, energy_j, one.fits
            )
        from gpuscope.timeline.recost_ranks import recost_ranks  # one device needs none of it

        job = recost_ranks(
            self.captured,
            device,
            self.constants,
            cluster=self.cluster,
            interval=interval,
            memory=memory,
            waiting=self.waiting,
        )
        step_s, members = job.step_time_s, sum(rank.members for rank in job.ranks)
        return Step(
            step_s,
            job.low_s,
            job.high_s,
            tuple(step_s for _ in host_factors),
            sum(rank.moved_bytes * rank.members for rank in job.ranks) / members,
            job.energy_j,
            all(rank.fits for rank in job.ranks) if memory else None,
        )
