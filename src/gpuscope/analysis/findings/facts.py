"""What a finding may look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.breakdown import CLASSES, Rows
from gpuscope.analysis.copies import CopyKind
from gpuscope.analysis.critical_path import CriticalPath
from gpuscope.analysis.fit import FitOption
from gpuscope.analysis.idle_spots import IdleSpot
from gpuscope.analysis.job_types import JobStory
from gpuscope.analysis.launches import Launches
from gpuscope.analysis.recorded_types import Communication, RankStory, StepSpread, Trust
from gpuscope.analysis.roofs import Roofs
from gpuscope.analysis.steps import StepTime
from gpuscope.analysis.types import MemoryStory, Utilisation
from gpuscope.hardware.device import Device
from gpuscope.program.types import Program


@dataclass(frozen=True, slots=True)
class Facts:
    """One step of one rank, as the findings see it.

    Attributes:
        step: the step's time: device time (overlaps counted once) plus idle time by cause.
        host_work_s: time the host worked and did not wait; None without host events.
        host_wait_s: time the host spent in synchronisations and the operators around them (the
            whole of an `.item()`); None without host events.
        syncs: synchronisations of the host in the window: name and how many, most first.
        rows: the device events with their kernels.
        roofs: the device's roofs.
        memory, utilisation, program: None where unknown.
        fit: what would make a step fit that does not; empty where it does.
        idle_spots, launches, copies, critical_path: as in `Analysis`.
        rank: which rank it is.
        trust, ranks, communication, step_spread, job: as in `Analysis`.
        fullest: of a job, the rank that needs most memory, which `memory` is of.
        on_host: the "device" is the host's own processor: nothing is launched.
    """

    step: StepTime
    host_work_s: float | None
    syncs: tuple[tuple[str, int], ...]
    rows: Rows
    roofs: Roofs
    memory: MemoryStory | None
    utilisation: Utilisation | None
    program: Program | None
    fit: tuple[FitOption, ...] = ()
    idle_spots: tuple[IdleSpot, ...] = ()
    launches: Launches | None = None
    copies: tuple[CopyKind, ...] = ()
    critical_path: CriticalPath | None = None
    rank: int = 0
    trust: Trust | None = None
    ranks: RankStory | None = None
    communication: Communication | None = None
    step_spread: StepSpread | None = None
    host_wait_s: float | None = None
    on_host: bool = False
    job: JobStory | None = None
    fullest: int | None = None

    @property
    def step_s(self) -> float:
        """The step."""
        return self.step.step_s

    @property
    def busy_s(self) -> float:
        """Device time of the step."""
        return self.step.busy_s

    @property
    def idle_s(self) -> Mapping[str, float]:
        """Idle time of the step by cause."""
        return self.step.idle_s

    @property
    def device(self) -> Device | None:
        """The device, where one is known."""
        return self.roofs.device

    @property
    def total_idle_s(self) -> float:
        """Idle time of the step, all causes."""
        return sum(self.idle_s.values())

    @property
    def device_bound(self) -> bool:
        """Whether the device is idle for less than a tenth of the step."""
        return self.share(self.total_idle_s) < 0.10

    @property
    def replayed(self) -> bool:
        """Whether most kernels come from CUDA graphs, so that no launches are left to save."""
        found = self.launches
        if found is None or not found.graph_launches or found.kernels_per_graph is None:
            return False
        return found.graph_launches * found.kernels_per_graph > 0.5 * found.kernels

    def is_largest(self, label: str) -> bool:
        """Return whether a class of device work is the largest part of the step."""
        own = self.time_of(self.of_class(label))
        others = (self.time_of(self.of_class(name)) for name in CLASSES if name != label)
        return own >= max(*others, self.total_idle_s)

    def share(self, time_s: float) -> float:
        """Return a time as a share of the step."""
        return time_s / self.step_s if self.step_s > 0 else 0.0

    def idle(self, cause: str) -> float:
        """Return the idle seconds of one cause."""
        return self.idle_s.get(cause, 0.0)

    def of_class(self, label: str) -> npt.NDArray[np.bool_]:
        """Return which device events are of a class of `breakdown.CLASSES`."""
        return np.asarray(self.rows.class_code == CLASSES.index(label), np.bool_)

    def time_of(self, events: npt.NDArray[np.bool_]) -> float:
        """Return the attributed seconds per step of these events."""
        return float(self.rows.work.attributed_ns[events].sum()) * self.rows.seconds

    def best_of(self, events: npt.NDArray[np.bool_]) -> float | None:
        """Return the time of these events at the roofline; None where one has no roof."""
        best = self.rows.best_s[events]
        return None if np.isnan(best).any() else float(best.sum())

    def gain_of(self, events: npt.NDArray[np.bool_]) -> float | None:
        """Return what these events could save at the roofline; events without a roof save 0.

        None where none of them has a roof.
        """
        best = self.rows.best_s[events]
        known = ~np.isnan(best)
        if not known.any():
            return None
        own = self.rows.time_s[events]
        return float((own[known] - best[known]).sum())

    def per_step(self, values: npt.NDArray[np.float64], events: npt.NDArray[np.bool_]) -> float:
        """Return the sum of a column over these events, per step."""
        return float(values[events].sum()) / self.rows.work.window.steps

    def count_of(self, events: npt.NDArray[np.bool_]) -> int:
        """Return how many of these events a step has."""
        return round(int(events.sum()) / self.rows.work.window.steps)

    def kind_times(self, events: npt.NDArray[np.bool_]) -> dict[str, float]:
        """Return the attributed seconds per step of these events by kernel family, most first."""
        table = self.rows.kernels.kind.table
        codes = self.rows.kernels.kind.take(self.rows.work.kernel)[events]
        time = np.bincount(codes, weights=self.rows.time_s[events], minlength=len(table))
        order = np.argsort(-time, kind="stable")
        return {table[i]: float(time[i]) for i in order if time[i] > 0}
