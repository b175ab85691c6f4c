"""`gs.plan`: what to train, fine-tune or serve a built-in model on, and how."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, overload

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.planning.question import question_of
from gpuscope.planning.search import search
from gpuscope.planning.serving.search import question_of_serving, search_serving
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
def plan(model: str, *, task: Literal["serve"], **asked: Any) -> ServingPlan: ...


def plan(
    model: str,
    *,
    task: str = "train",
    on_candidate: Callable[[int, int, Any], None] | None = None,
    **asked: Any,
) -> Plan | TuningPlan | ServingPlan:
    """What to run a built-in model on, and how.

    Each sort of answer has `best`, `ties`, `front`, `judged`, `rejected`, `counts` (rejected by
    reason) and `to("torchtitan")` (`to("vllm")` of serving).

    Args:
        model: name of a built-in decoder.
        task: "train", "finetune" or "serve".
        on_candidate: told of each before it is simulated: number, how many, which.
        asked: of any task `on` (devices of the catalogue, "h100,h200"), `devices` (how many: 8,
            "1..8", powers of two, or several), `simulate` (how many candidates are simulated) and
            `prices` (a file, `gpuscope.planning.prices`); the rest as
            `gpuscope.planning.question.question_of` (global_batch, seq, goal, tokens),
            `gpuscope.planning.tuning.search.question_of_tuning` (the same, method, rank, targets)
            and `gpuscope.planning.serving.search.question_of_serving` (rate, input, answer, slo,
            engine, dtype, kv_dtype) take it.

    Raises:
        UnknownNameError: no such model, device, goal or task.
        InvalidValueError: numbers that cannot be, something that this task does not ask.
        DoesNotFitError: nothing fits; says what is least short.
    """
    check_task(task)
    question, answer = _ANSWERS[task]
    known = [name for name in inspect.signature(question).parameters if name != "model"]
    for name in asked:
        if name not in known:
            raise InvalidValueError(
                Text("A plan to {task} does not ask for {name}.", task=task, name=name),
                Text("It asks for: {names}.", names=", ".join(known)),
                Text("Leave it out."),
            )
    found: Plan | TuningPlan | ServingPlan = answer(question(model, **asked), on_candidate)
    return found
