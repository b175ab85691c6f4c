"""What a finding may look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.account import Losses
from gpuscope.analysis.account_types import Account, TermKey
from gpuscope.analysis.breakdown import CLASSES, Rows
from gpuscope.analysis.copies import DIRECTIONS, CopyKind
from gpuscope.analysis.critical_path import CriticalPath
from gpuscope.analysis.fit import FitOption
from gpuscope.analysis.idle_spots import IdleSpot
from gpuscope.analysis.job_types import JobStory
from gpuscope.analysis.launches import Launches
from gpuscope.analysis.recorded_types import Communication, RankStory, StepSpread, Trust
from gpuscope.analysis.roofs import Roofs
from gpuscope.analysis.steps import StepTime
from gpuscope.analysis.types import About, Finding, MemoryStory, Utilisation
from gpuscope.hardware.device import Device
from gpuscope.program.types import Program

MOST_EVENTS = 20_000
"""Events that a finding names; of more, those that lose most."""

MOST_NAMES = 5
"""Operators and lines that it names."""


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
        losses: what each of them takes beyond the best, term by term.
        account: the step added up from them.
        roofs: the device's roofs.
        memory, utilisation, program: None where unknown.
        fit: what would make a step fit that does not; empty where it does.
        idle_spots, launches, copies, critical_path: as in `Analysis`.
        rank: which rank it is.
        trust, ranks, communication, step_spread, job: as in `Analysis`.
        fullest: of a job, the rank that needs most memory, which `memory` is of.
        pageable_ways: see `copies.pageable_ways`; None where nobody looked.
        on_host: the "device" is the host's own processor: nothing is launched.
    """

    step: StepTime
    host_work_s: float | None
    syncs: tuple[tuple[str, int], ...]
    rows: Rows
    losses: Losses
    account: Account | None
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
    pageable_ways: npt.NDArray[np.int64] | None = None

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

    def term_s(self, key: TermKey) -> float:
        """Return the seconds of a term of the account; 0 where it is not known."""
        return self.account.time_s(key) if self.account is not None else 0.0

    def share(self, time_s: float) -> float:
        """Return a time as a share of the step."""
        return time_s / self.step_s if self.step_s > 0 else 0.0

    def idle(self, cause: str) -> float:
        """Return the idle seconds of one cause."""
        return self.idle_s.get(cause, 0.0)

    def of_class(self, label: str) -> npt.NDArray[np.bool_]:
        """Return which device events are of a class of `breakdown.CLASSES`."""
        return np.asarray(self.rows.class_code == CLASSES.index(label), np.bool_)

    def pageable(self, kinds: Iterable[CopyKind]) -> npt.NDArray[np.bool_]:
        """Return which device events copy from or to pageable memory in these kinds' directions."""
        if self.pageable_ways is None:
            return np.zeros(len(self.rows.work), np.bool_)
        ways = [DIRECTIONS.index(kind.direction) for kind in kinds if kind.memory == "pageable"]
        return np.asarray(np.isin(self.pageable_ways, ways), np.bool_)

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

    def about(
        self,
        events: npt.NDArray[np.bool_] | None = None,
        *,
        idle: Iterable[str] = (),
        idle_s: float | None = None,
        explains_s: float | None = None,
    ) -> About:
        """Return what a finding is about.

        Args:
            events: device events of the step.
            idle: causes of idle time.
            idle_s: what it speaks for of their time, where that is not all of it.
            explains_s: what it speaks for of the events' loss, where that is not all of it.
        """
        causes = tuple(cause for cause in idle if self.idle(cause) > 0)
        idle_s = float(sum(map(self.idle, causes)) if idle_s is None else idle_s)
        if events is None:
            return About(idle=causes, idle_s=idle_s, explains_s=idle_s)
        loss = np.where(events, self.losses.loss_s, 0.0)
        rows = np.flatnonzero(events)
        if len(rows) > MOST_EVENTS:
            rows = np.sort(rows[np.argsort(-loss[rows], kind="stable")[:MOST_EVENTS]])
        lost_s = float(loss.sum()) if explains_s is None else explains_s
        return About(
            events=tuple(self.rows.work.event[rows].tolist()),
            operators=tuple(name for name, _ in self.operators(loss)[:MOST_NAMES]),
            lines=tuple(line for line, _ in self.lines(loss)[:MOST_NAMES]),
            idle=causes,
            idle_s=idle_s,
            explains_s=lost_s + idle_s,
        )

    def operators(self, loss: npt.NDArray[np.float64]) -> list[tuple[str, float]]:
        """Return names of operators with the seconds that their events lose, most first."""
        names = self.rows.ops.name
        by_name = np.bincount(
            names.take(self.rows.work.op), weights=loss, minlength=len(names.table)
        )
        order = np.argsort(-by_name, kind="stable")
        return [(names.table[i], float(by_name[i])) for i in order if i and by_name[i] > 0]

    def lines(self, loss: npt.NDArray[np.float64]) -> list[tuple[str, float]]:
        """Return source lines with the seconds that their events lose, most first.

        A backward operator has no line of its own: its loss goes to the lines of the forward
        operators of its module.
        """
        ops, of = self.rows.ops.ops, self.rows.work.op
        known = of >= 0
        by_op = np.bincount(of[known], weights=loss[known], minlength=len(ops))
        share: dict[str, dict[str, float]] = {}
        for op, lost in zip(ops, by_op.tolist(), strict=True):
            if op.line and op.phase == "forward" and lost > 0:
                own = share.setdefault(op.module, {})
                own[op.line] = own.get(op.line, 0.0) + lost
        total: dict[str, float] = {}
        for at in np.flatnonzero(by_op > 0).tolist():
            op, lost = ops[at], float(by_op[at])
            if op.line and op.phase != "backward":
                total[op.line] = total.get(op.line, 0.0) + lost
                continue
            own = share.get(op.module, {})
            whole = sum(own.values())
            for line, part in own.items():
                total[line] = total.get(line, 0.0) + lost * part / whole
        return sorted(total.items(), key=lambda item: -item[1])

    def per_step(self, values: npt.NDArray[np.float64], events: npt.NDArray[np.bool_]) -> float:
        """Return the sum of a column over these events, per step."""
        return float(values[events].sum()) / self.rows.work.window.steps

    def count_of(self, events: npt.NDArray[np.bool_]) -> int:
        """Return how many launches of these events a step has."""
        return round(float(self.rows.launches[events].sum()) / self.rows.work.window.steps)

    def kind_times(self, events: npt.NDArray[np.bool_]) -> dict[str, float]:
        """Return the attributed seconds per step of these events by kernel family, most first."""
        table = self.rows.kernels.kind.table
        codes = self.rows.kernels.kind.take(self.rows.work.kernel)[events]
        time = np.bincount(codes, weights=self.rows.time_s[events], minlength=len(table))
        order = np.argsort(-time, kind="stable")
        return {table[i]: float(time[i]) for i in order if time[i] > 0}


def taken(facts: Facts, *others: Callable[[Facts], Finding | None]) -> npt.NDArray[np.bool_]:
    """Return which device events any of these findings is about, where they speak.

    A finding that leaves them out promises no time twice.
    """
    spoken = [found.about for other in others if (found := other(facts)) is not None]
    named = [event for about in spoken if about is not None for event in about.events]
    return np.asarray(np.isin(facts.rows.work.event, named), np.bool_)
