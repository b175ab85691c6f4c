"""What trains on these devices in so many days: all built-in decoders, the largest first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gpuscope.document.blocks import Cell, Column, Explanation, Section, Table
from gpuscope.document.printable import short_repr
from gpuscope.document.quantities import Count, Number
from gpuscope.document.text import Text
from gpuscope.errors import DoesNotFitError, GpuscopeError, InvalidValueError
from gpuscope.planning.explanation import explained
from gpuscope.planning.question import question_of
from gpuscope.planning.score import score
from gpuscope.planning.search import search
from gpuscope.planning.space import candidates
from gpuscope.planning.types import Candidate, Plan, Question
from gpuscope.program.models.registry import MODELS

__all__ = ["ANY", "Trainable", "check_any", "explained_largest", "largest"]

ANY = "any"
"""In place of a model: the largest that does."""

TOKENS_PER_PARAMETER = 20
"""Where the tokens were not said: about what loses least for its arithmetic (Hoffmann et al.,
"Training Compute-Optimal Large Language Models", 2022, table 3)."""

SLACK = 1.3
"""What the quick score calls longer than so many times the limit is not simulated."""

DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainable:
    """One model.

    Attributes:
        question: its training.
        quick_days: of the whole training by the quick score; None where nothing fits.
        plan: simulated; None where it was not, or does not fit.
        why: what rules it out, where something does.
    """

    question: Question
    quick_days: float | None
    plan: Plan | None = None
    why: str = ""

    def __repr__(self) -> str:
        days = "nothing fits" if self.quick_days is None else f"{self.quick_days:.3g} days (quick)"
        return short_repr(self, self.question.model, days)

    @property
    def interrupted(self) -> bool:
        """Whether its simulations did not end."""
        return self.plan is not None and not self.plan.complete

    @property
    def days(self) -> float | None:
        """Of the whole training, simulated."""
        if self.plan is None or not self.plan.best.simulated:
            return None
        return self.plan.best.step_s * (self.question.steps or 1.0) / DAY_S


def check_any(model: str, days: float | None) -> None:
    """Refuse days of one model, and any model without days.

    Raises:
        InvalidValueError: one without the other.
    """
    if model != ANY or days is None:
        raise InvalidValueError(
            Text("--days belongs to the model's name any, and that to it."),
            Text("Together they ask for the largest model that trains in time."),
            Text("Type for example: gpuscope plan any --on rtx-4090 --devices 8 --days 7"),
        )


def largest(
    days: float, on_candidate: Callable[[int, int, Candidate], None] | None = None, **asked: Any
) -> tuple[Trainable, ...]:
    """Every built-in decoder, the largest first, simulated down to the first that is done in time.

    Args:
        days: the limit.
        on_candidate: as `gpuscope.planning.search.search` takes it.
        asked: as `gpuscope.planning.question.question_of` takes it, but the model.

    Raises:
        InvalidValueError: no days; numbers that cannot be.
        UnknownNameError: no such device, goal or grid.
    """
    if not 0 < days < float("inf"):
        raise InvalidValueError(
            Text("{days} days are no time to train in.", days=Number(days, "g")),
            "",
            Text("Type for example: --days 7"),
        )
    MODELS.load()
    decoders = [each for each in MODELS if each.size is not None]
    names = [m.name for m in sorted(decoders, key=lambda m: (-(m.parameters or 0), m.name))]
    question_of(names[-1], **asked)  # what is wrong for each model is said, and not left out
    found: list[Trainable] = []
    done = False
    for name in names:
        try:
            each = _quick(name, asked)
        except KeyboardInterrupt:
            if not found:
                raise
            break
        if each is None:
            continue
        if not done and each.quick_days is not None and each.quick_days <= SLACK * days:
            each = _simulated(each, on_candidate)
            done = each.interrupted or (each.days is not None and each.days <= days)
        found.append(each)
    return tuple(found)


def _quick(name: str, asked: dict[str, Any]) -> Trainable | None:
    """A model by the quick score; None where it has no ready-made program, or is too short."""
    try:
        question = question_of(name, **asked)
    except GpuscopeError:
        return None
    if question.seq > question.size.context:
        return None
    tokens = question.tokens or TOKENS_PER_PARAMETER * question.size.parameters
    question = replace(question, tokens=tokens)
    plans = candidates(question)[0]
    scores = score(question, plans)
    fitting = [
        float(scores.estimate_s[n])
        for n, each in enumerate(plans)
        if scores.estimate_bytes[n] <= each.cluster.device.memory_usable_bytes
    ]
    steps = question.steps or 1.0
    return Trainable(
        question=question, quick_days=min(fitting) * steps / DAY_S if fitting else None
    )


def _simulated(
    each: Trainable, on_candidate: Callable[[int, int, Candidate], None] | None
) -> Trainable:
    try:
        return replace(each, plan=search(each.question, on_candidate))
    except DoesNotFitError as error:
        return replace(each, why=error.what)


def explained_largest(found: tuple[Trainable, ...], days: float) -> Explanation:
    """The answer for a reader: the largest model's own plan, and what became of all others."""
    taken = next((e for e in found if e.days is not None and e.days <= days), None)
    columns = (
        Column(Text("model")),
        Column(Text("parameters"), "count"),
        Column(Text("tokens"), "count"),
        Column(Text("days by the quick score")),
        Column(Text("days simulated")),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            each.question.model,
            each.question.size.parameters,
            each.question.tokens,
            each.quick_days,
            each.days,
        )
        for each in found
    ]
    marked = tuple(n for n, each in enumerate(found) if each is taken)
    table = Table(Text("The largest first"), columns, tuple(rows), marked)
    section = Section(Text("What can be trained in {days} days", days=Number(days, "g")), (table,))
    if taken is None:
        title = Text("The largest model for {days} days", days=Number(days, "g"))
        return Explanation("plan", title, (_none_simulated(found, days),), (section,))
    assert taken.plan is not None
    whole = explained(taken.plan)
    told = Text(
        "{model} is the largest built-in decoder that trains in {days} days: {taken} days for "
        "{tokens} tokens.",
        model=taken.question.model,
        days=Number(days, "g"),
        taken=Number(taken.days, ".3g"),
        tokens=Count(taken.question.tokens),
    )
    return replace(whole, summary=(told, *whole.summary), sections=(section, *whole.sections))


def _none_simulated(found: tuple[Trainable, ...], days: float) -> Text:
    """What is told where no simulated training is done in time."""
    quick = sorted(
        (each for each in found if each.quick_days is not None),
        key=lambda each: each.quick_days or 0.0,
    )
    said = Number(days, "g")
    if any(each.interrupted for each in found):
        likely = next((each for each in found if (each.quick_days or days + 1) <= days), quick[0])
        return Text(
            "It was interrupted. By the quick score alone {model} is the largest built-in decoder "
            "for {days} days: it trains in {least}.",
            model=likely.question.model,
            days=said,
            least=Number(likely.quick_days, ".3g"),
        )
    if not quick:
        return Text("No built-in decoder trains in {days} days on these.", days=said)
    return Text(
        "No built-in decoder trains in {days} days on these; {model} is nearest, with "
        "{least} by the quick score.",
        days=said,
        model=quick[0].question.model,
        least=Number(quick[0].quick_days, ".3g"),
    )
