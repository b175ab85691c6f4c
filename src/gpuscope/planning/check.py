"""An existing plan judged: itself simulated, and the plans that are one decision away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpuscope.errors import GpuscopeError
from gpuscope.planning.choice import tied
from gpuscope.planning.composed import composed_s
from gpuscope.planning.neighbours import changed, near
from gpuscope.planning.score import score
from gpuscope.planning.simulate import Simulator
from gpuscope.planning.space import candidates
from gpuscope.planning.tables import Tables
from gpuscope.planning.tuning.types import Tuned, TuningQuestion, Weighed
from gpuscope.planning.types import Candidate, Judged, Question

__all__ = ["Checked", "check", "checked"]

Asked = TypeVar("Asked", Question, TuningQuestion)
Each = TypeVar("Each", Candidate, Tuned)
Done = TypeVar("Done", Judged, Weighed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked(Generic[Asked, Done]):
    """An existing plan and its neighbours.

    Attributes:
        question: what it is judged for.
        plan: the plan itself.
        neighbours: those one decision away that were simulated, with the decision: the best first.
        left: how many neighbours were not simulated.
        complete: False where it was interrupted.
    """

    question: Asked
    plan: Done
    neighbours: tuple[tuple[str, Done], ...]
    left: int
    complete: bool = True

    @property
    def fits(self) -> bool:
        """Whether the plan is likely enough to fit."""
        return self.plan.fits >= self.question.certainty

    @property
    def better(self) -> tuple[str, Done] | None:
        """The best neighbour that fits and is better for sure; any that fits where the plan does
        not."""
        goal = self.question.goal
        mine = self.plan.value(goal)
        for change, each in self.neighbours:
            value = each.value(goal)
            if each.fits < self.question.certainty or value is None or mine is None:
                continue
            if not self.fits or (value < mine and not tied(self.plan, each, goal)):
                return change, each
        return None


def check(
    question: Question,
    candidate: Candidate,
    on_candidate: Callable[[int, int, Candidate], None] | None = None,
) -> Checked[Question, Judged]:
    """Judge a plan and the best of its neighbours; interrupted, with those so far.

    Args:
        question: as `gpuscope.planning.existing.existing` gives it.
        candidate: the plan.
        on_candidate: told of each before it is simulated: number, how many, which.

    Raises:
        GpuscopeError: the plan itself cannot run on this device.
    """
    near = _neighbours(question, candidate)
    simulator = Simulator(question)
    scored = {each: scored_s for scored_s, _, each in near}
    return checked(
        question,
        candidate,
        [(change, each) for _, change, each in near],
        lambda each: simulator.judge(each, scored.get(each, 0.0)),
        on_candidate,
    )


def checked(
    question: Asked,
    own: Each,
    near: Sequence[tuple[str, Each]],
    judge: Callable[[Each], Done],
    on_candidate: Callable[[int, int, Each], None] | None = None,
) -> Checked[Asked, Done]:
    """Judge a plan and as many of its neighbours as the question simulates; interrupted, so far.

    Args:
        question: what it is judged for.
        own: the plan.
        near: decision and candidate of each neighbour, the most promising first.
        judge: simulates one.
        on_candidate: told of each before it is simulated: number, how many, which.

    Raises:
        GpuscopeError: the plan itself cannot run on this device.
    """
    judged: list[tuple[str, Done]] = []
    complete = True
    every: list[tuple[str, Each]] = [("", own)]
    every.extend(near[: question.simulated])
    for number, (change, each) in enumerate(every, start=1):
        try:
            if on_candidate:
                on_candidate(number, len(every), each)
            judged.append((change, judge(each)))
        except KeyboardInterrupt:
            if not judged:
                raise
            complete = False
            break
        except GpuscopeError:
            if not judged:
                raise
    goal = question.goal
    others = sorted(judged[1:], key=lambda each: (each[1].fits < 0.5, each[1].value(goal) or 0.0))
    return Checked(
        question=question,
        plan=judged[0][1],
        neighbours=tuple(others),
        left=len(near) + 1 - len(every),
        complete=complete,
    )


def _neighbours(question: Question, mine: Candidate) -> list[tuple[float, str, Candidate]]:
    """Composed step, decision and candidate of all that are one decision away, the quickest first.

    Degrees are halved or doubled, no more; what surely does not fit is left out.
    """
    found = [(change, each) for each in candidates(question)[0] if (change := changed(mine, each))]
    found = [(change, each) for change, each in found if near(mine.plan, each.plan)]
    if not found:
        return []
    scores = score(question, [each for _, each in found])
    tables = Tables(question)
    known: list[tuple[float, str, Candidate]] = []
    for n, (change, each) in enumerate(found):
        if scores.least_bytes[n] > each.cluster.device.memory_usable_bytes:
            continue
        try:
            seconds = composed_s(question, each, tables.of(each))
        except GpuscopeError:
            seconds = float(scores.estimate_s[n])
        known.append((seconds, change, each))
    return sorted(known, key=lambda item: (item[0], item[1]))
