"""The user's own code under changes: captured once for each set, simulated on each device."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.advice.forecast.changed_programs import Captured, ChangedPrograms
from gpuscope.advice.types import ChangeCase
from gpuscope.api import predict, recost
from gpuscope.planning.own.types import Changed, OwnQuestion, Weighed
from gpuscope.planning.simulate import figures, outcome, peak_of
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.types import Program

__all__ = ["Quick", "Simulator"]


@dataclass(frozen=True, slots=True)
class Quick:
    """A step without its interval.

    Attributes:
        step_s: its time.
        peak_bytes: of the fullest rank.
    """

    step_s: float
    peak_bytes: int


class Simulator:
    """Simulates candidates of one question."""

    def __init__(self, question: OwnQuestion) -> None:
        self.question = question
        self._programs: dict[tuple[int | None, int], ChangedPrograms] = {}
        largest = max(question.clusters, key=lambda each: each.n_devices)
        programs = ChangedPrograms(question.target, largest)
        captured = programs.of()
        first = captured if isinstance(captured, Program) else captured.programs[0]
        seen = programs.seen
        self.case = ChangeCase(predict(captured, largest), largest, first, seen)
        """The code as it stands, on as many devices as may be taken."""
        self.shares = bool(first.groups or (seen is not None and seen.wraps))
        """Whether the code joins other devices by itself."""
        self._programs[None, largest.n_devices if self.shares else 0] = programs

    def quick(self, each: Changed) -> Quick:
        """Time and memory of a step alone.

        Raises:
            GpuscopeError: the changed code cannot be captured.
        """
        found = recost(self._captured(each), each.cluster, interval=False)
        return Quick(found.step_time_s, peak_of(found)[0])

    def judge(self, each: Changed, scored_s: float) -> Weighed:
        """Simulate one candidate.

        Args:
            each: what is simulated.
            scored_s: what the quick score said.

        Raises:
            GpuscopeError: the changed code cannot be captured.
        """
        found = recost(self._captured(each), each.cluster)
        step = figures(found, each.devices)
        return Weighed(candidate=each, scored_s=scored_s, **outcome(step, found, each.cluster))

    def _captured(self, each: Changed) -> Captured:
        """Code that joins no other device is the same on any number of them."""
        batch = None if each.batch == each.own_batch else each.batch
        key = batch, each.devices if self.shares or each.share else 0
        if key not in self._programs:
            options = WorkloadOptions(batch=batch)
            self._programs[key] = ChangedPrograms(self.question.target, each.cluster, options)
        return self._programs[key].of(each.names)
