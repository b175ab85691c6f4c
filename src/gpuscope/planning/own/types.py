"""What the parts of plans of a user's own code hand to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2

from gpuscope.document.printable import short_repr
from gpuscope.document.quantities import Seconds
from gpuscope.hardware import Cluster
from gpuscope.hardware.grid import WORLD, GridFactor
from gpuscope.planning.limits import Most
from gpuscope.planning.types import Neighbour, Rejected, Simulated, counted

__all__ = ["Changed", "OwnPlan", "OwnQuestion", "Weighed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnQuestion:
    """What is asked.

    Attributes:
        target: "train.py:build" or a script.
        clusters: every device and number of devices that may be taken.
        goal: one of `gpuscope.planning.figures.registry.goals`, of a sample.
        global_batch: samples of a step of the whole job; None: any.
        certainty: least probability to fit.
        simulated: how many candidates are simulated.
        grid: what the electricity brings about.
        limits: what a step of the whole job may come to at most.
    """

    target: str
    clusters: tuple[Cluster, ...]
    goal: str = "time"
    global_batch: int | None = None
    certainty: float = 0.95
    simulated: int = 8
    grid: GridFactor = WORLD
    limits: tuple[Most, ...] = ()

    @property
    def steps(self) -> None:
        """How many the code takes is not known."""


@dataclass(frozen=True, slots=True)
class Changed:
    """One way to run the code on one cluster.

    Attributes:
        cluster: what it runs on.
        share: the change that shares the model over devices ("ddp", "fsdp"); "" for none.
        batch: samples of a device's step; None where the code has no argument for it.
        techniques: names of the other changes, in the order of their installation.
        own_batch: samples of a device's step as the code stands; None as above.
    """

    cluster: Cluster
    share: str = ""
    batch: int | None = None
    techniques: tuple[str, ...] = ()
    own_batch: int | None = None

    def __repr__(self) -> str:
        return short_repr(self, f"{self.cluster.name}: {self.words}")

    @property
    def names(self) -> tuple[str, ...]:
        """All changes."""
        return (*((self.share,) if self.share else ()), *self.techniques)

    @property
    def words(self) -> str:
        """As on a command line: "fsdp, batch 32, bf16-autocast"; "as it is"."""
        sized = () if self.batch is None else (f"batch {self.batch}",)
        share = (self.share,) if self.share else ()
        return ", ".join((*share, *sized, *self.techniques)) or "as it is"

    @property
    def devices(self) -> int:
        """Of the whole job."""
        return self.cluster.n_devices

    @property
    def dimensions(self) -> int:
        """Changes, and doublings or halvings of the batch: fewer are simpler."""
        if not self.batch or not self.own_batch:
            return len(self.names)
        return len(self.names) + round(abs(log2(self.batch / self.own_batch)))

    @property
    def samples(self) -> int:
        """Of a step of the whole job; where the batch is not known, a device's counts as one."""
        return self.devices * (self.batch or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed(Simulated):
    """A candidate that was simulated."""

    candidate: Changed

    def value(self, goal: str) -> float | None:
        """What the goal makes small: seconds, dollars or joules of a sample."""
        # `super()` would mean the class that `slots` replaced.
        whole = Simulated.value(self, goal)
        return None if whole is None else whole / self.candidate.samples


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPlan:
    """The answer.

    Attributes:
        question: what was asked.
        best: the recommended candidate.
        ties: candidates that cannot be told from the best, it included; the simplest is the best.
        front: those that no other beats in time, cost and energy of a sample, in the order of their
            simulation.
        judged: all that were simulated and fit.
        rejected: all that are out, and changes that were not combined.
        before: the code as it stands on the cluster of the best (where it takes several devices,
            a copy on each); None where it was interrupted before.
        candidates: how many were considered.
        complete: False where it was interrupted: the best so far, by the quick score where
            `judged` is empty.
        near: those one decision away from the best, the best for the goal first.
    """

    question: OwnQuestion
    best: Weighed
    ties: tuple[Weighed, ...]
    front: tuple[Weighed, ...]
    judged: tuple[Weighed, ...]
    rejected: tuple[Rejected, ...]
    before: Weighed | None
    candidates: int
    complete: bool = True
    near: tuple[Neighbour, ...] = ()

    def __repr__(self) -> str:
        best = self.best.candidate
        step = f"step {Seconds(self.best.step_s)}"
        return short_repr(self, f"{best.cluster.name}: {best.words}", step)

    @property
    def counts(self) -> Mapping[str, int]:
        """Rejected candidates by kind."""
        return counted(self.rejected)

    def to(self, framework: str) -> str:
        """What starts the best.

        Args:
            framework: one of `gpuscope.planning.own.writers.FRAMEWORKS`.

        Raises:
            UnknownNameError: no such writer.
            UnsupportedError: the framework cannot do this plan.
        """
        from gpuscope.planning.own.writers import written

        return written(self, framework)
