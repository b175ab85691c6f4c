"""`gs.plan`: what to train, fine-tune or serve a model on, or to run code on, and how."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, overload

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.planning.largest import ANY, Trainable, check_any, largest
from gpuscope.planning.own import is_own
from gpuscope.planning.own.types import OwnPlan
from gpuscope.planning.presets import preset as preset_of
from gpuscope.planning.question import question_of
from gpuscope.planning.search import search
from gpuscope.planning.serving.search import question_of_serving, search_serving
from gpuscope.planning.serving.sliced import is_sliced, question_of_slices, search_slices
from gpuscope.planning.serving.sliced_types import SlicedPlan
from gpuscope.planning.serving.types import ServingPlan
from gpuscope.planning.tuning.search import question_of_tuning, search_tuning
from gpuscope.planning.tuning.types import TuningPlan
from gpuscope.planning.types import Plan

__all__ = ["TASKS", "check_task", "plan"]

_ANSWERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "train": (question_of, search),
    "finetune": (question_of_tuning, search_tuning),
    "serve": (question_of_serving, search_serving),
}

TASKS = tuple(_ANSWERS)


def check_task(task: str) -> None:
    """Refuse a task that is none.

    Raises:
        UnknownNameError: no such task.
    """
    if task not in TASKS:
        known = Text("Plans are made for: {names}.", names=", ".join(TASKS))
        raise UnknownNameError(Text("task"), task, TASKS, known)


@overload
def plan(model: str, *, task: Literal["train"] = "train", **asked: Any) -> Plan: ...


@overload
def plan(model: str, *, task: Literal["finetune"], **asked: Any) -> TuningPlan: ...


@overload
def plan(model: str, *, task: Literal["serve"], **asked: Any) -> ServingPlan | SlicedPlan: ...


def plan(
    model: str,
    *,
    task: str = "train",
    preset: str | None = None,
    on_candidate: Callable[[int, int, Any], None] | None = None,
    **asked: Any,
) -> Plan | TuningPlan | ServingPlan | SlicedPlan | OwnPlan | tuple[Trainable, ...]:
    """What to run a model on, and how.

    Each sort of answer has `best`, `ties`, `front`, `judged`, `rejected`, `counts` (rejected by
    reason) and `to("torchtitan")` (`to("vllm")` of serving, `to("accelerate")` of your own code).
    Interrupted, it is the best so far (`complete` is False), by the quick score alone where
    `judged` is empty.

    Args:
        model: name of a built-in decoder; "any" with `days`: every one, the largest first, down to
            the first that trains in so many days, each a `Trainable`; to serve on parts of devices
            several, each with its requests a second ("llama-3.2-1b=6,qwen3-8b=2"); or your own
            code, "train.py:build", as `predict` takes it: the answer is an `OwnPlan`.
        task: "train", "finetune" or "serve"; your own code says itself what it does.
        preset: "week", "readers" or "card": what the question of that name asks is taken where
            `asked` does not say it.
        on_candidate: told of each before it is simulated: number, how many, which.
        asked: of any task `on` (devices of the catalogue, "h100,h200"), `devices` (how many: 8,
            "1..8", powers of two, or several), `simulate` (how many candidates are simulated) and
            `prices` (a file, `gpuscope.planning.prices`); the rest as
            `gpuscope.planning.question.question_of` (global_batch, seq, goal, tokens),
            `gpuscope.planning.tuning.search.question_of_tuning` (the same, method, rank, targets)
            and `gpuscope.planning.serving.search.question_of_serving` (rate, input, answer, slo,
            engine, dtype, kv_dtype) take it; to serve `on` may be "h200:slices", "h200:mps" or
            "h200:time": the answer is a `SlicedPlan`; of your own code `on` ("8xh200"),
            global_batch, goal and what `gpuscope.planning.own.search.question_of_own` takes
            besides.

    Raises:
        UnknownNameError: no such model, device, goal or task.
        InputFileError: no such file or function of yours.
        InvalidValueError: numbers that cannot be, something that this task does not ask.
        DoesNotFitError: nothing fits; says what is least short.
    """
    if preset is not None:
        values = dict(preset_of(preset).values)
        task = values.pop("task", task)
        asked = {**values, **asked}
    check_task(task)
    if model == ANY or "days" in asked:
        return _largest(model, on_candidate, asked)
    question, answer = _ANSWERS[task]
    what = Text("to {task}", task=task)
    _, *known = inspect.signature(question).parameters
    if task == "serve" and is_sliced(asked.get("on")):
        question, answer = question_of_slices, search_slices
        known = [name for name in known if name not in ("prices", "device_set")]
    if is_own(model):
        question, answer, what = *_own(task), Text("of your own code")
        _, *known = inspect.signature(question).parameters
    for name in asked:
        if name not in known:
            raise InvalidValueError(
                Text("A plan {what} does not ask for {name}.", what=what, name=name),
                Text("It asks for: {names}.", names=", ".join(known)),
                Text("Leave it out."),
            )
    found: Plan | TuningPlan | ServingPlan | SlicedPlan | OwnPlan = answer(
        question(model, **asked), on_candidate
    )
    return found


def _largest(
    model: str, on_candidate: Callable[[int, int, Any], None] | None, asked: dict[str, Any]
) -> tuple[Trainable, ...]:
    """What trains in so many days.

    Raises:
        InvalidValueError: days without "any", or that without days.
    """
    check_any(model, asked.get("days"))
    return largest(asked.pop("days"), on_candidate, **asked)


def _own(task: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What asks and answers for a user's own code, imported where it is met.

    Raises:
        InvalidValueError: a task that the code does not decide.
    """
    from gpuscope.planning.own.search import question_of_own, search_own

    if task != "train":
        raise InvalidValueError(
            Text("A plan of your own code has no task."),
            Text("The code says itself what it trains."),
            Text("Leave it out."),
        )
    return question_of_own, search_own
