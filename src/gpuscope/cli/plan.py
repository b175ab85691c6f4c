"""`gpuscope plan`: what to train, fine-tune or serve a model on, and how."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuscope.cli.explanations import WhereWithoutFigures, show
from gpuscope.cli.fit import TunedBy, show_tuning
from gpuscope.cli.groups import grouped
from gpuscope.cli.plan_asked import Asked, AskedOf, Wanted, WantedOf, refuse_choosing
from gpuscope.cli.plan_beside import Beside, refuse_beside
from gpuscope.cli.plan_preset import with_preset
from gpuscope.cli.plan_serving import Served, ServedLoad, show_serving
from gpuscope.cli.workload_arguments import NoCache
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuscope.cli.explanations import Shown
    from gpuscope.document.blocks import Explanation
    from gpuscope.planning.types import Candidate, Question

NOTHING = 3
"""Exit code where no plan keeps every limit or fits; what comes nearest is printed all the same."""

# What does the work is imported when the command runs, so that --help stays fast.


def register(app: typer.Typer) -> None:
    """Add the `plan` command to the application."""
    short = Text("Choose devices and a split to train, fine-tune or serve: time, cost, what fits.")
    app.command("plan", short_help=short)(grouped(plan_command))


def plan_command(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(help=Text("A built-in decoder: llama-3.1-8b, ...; or train.py:build."))
    ],
    *,
    task: Annotated[str, typer.Option(help=Text("train, finetune or serve."))] = "train",
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=Text("A question with a name: week, readers or card.")),
    ] = None,
    tuned_by: TunedBy,
    load: ServedLoad,
    beside: Beside,
    asked: AskedOf,
    wanted: WantedOf,
    no_cache: NoCache = False,
    shown: WhereWithoutFigures,
) -> None:
    """Choose devices, parallelism, batch and settings to train, to fine-tune or to serve."""
    from gpuscope.planning.own import is_own
    from gpuscope.planning.verb import check_task

    if is_own(model):
        from gpuscope.cli.plan_own import show_own

        show_own(context, model, asked, wanted, shown)
        return
    task, asked, load, tuned_by = with_preset(context, preset, task, asked, load, tuned_by)
    check_task(task)
    refuse_beside(task, beside)
    _refuse_of_others(context, task, load, tuned_by)
    answered = True
    if wanted.framework == "any":
        wanted = replace(wanted, framework=None)
    if task == "serve":
        answered = show_serving(model, asked, load, wanted, no_cache, shown)
    elif task == "finetune":
        from gpuscope.planning.tuning.search import question_of_tuning

        if wanted.check is not None:
            refuse_choosing(wanted)
        given = {**_given(asked), "framework": wanted.framework}
        tuning = question_of_tuning(model, **given, **tuned_by)
        answered = show_tuning(tuning, wanted.why, no_cache, shown, wanted.check)
    elif asked.days is not None or model == "any":
        _show_largest(model, asked.days, {**_given(asked), **beside}, no_cache, shown)
    else:
        given = {**_given(asked), "framework": wanted.framework, **beside}
        _show_training(model, given, wanted, no_cache, shown)
    if not answered:
        raise typer.Exit(NOTHING)


def _given(asked: Asked) -> dict[str, Any]:
    """What a question of a training takes, by its names."""
    from gpuscope.planning.question import tokens_of

    given = asdict(asked)
    del given["days"]
    return {**given, "tokens": None if asked.tokens is None else tokens_of(asked.tokens)}


def _refuse_of_others(
    context: typer.Context, task: str, load: Served, tuned_by: dict[str, Any]
) -> None:
    """Refuse what was typed and another task asks.

    Raises:
        InvalidValueError: with the task that asks it.
    """
    from gpuscope.errors import InvalidValueError

    def typed(name: str) -> bool:
        source = context.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    asked_by = {"serve": [each.name for each in fields(load)], "finetune": [*tuned_by]}
    for other, names in asked_by.items():
        found = next(filter(typed, names), None)
        if task != other and found is not None:
            raise InvalidValueError(
                Text("--{name} belongs to --task {task}.", name=found.replace("_", "-"),
                     task=other),
                "",
                Text("Leave it out, or type: --task {task}", task=other),
            )  # fmt: skip
    for name in ("goal", "global_batch", "seq", "tokens", "days"):
        if task == "serve" and typed(name):
            raise InvalidValueError(
                Text("--{option} belongs to trainings.", option=name.replace("_", "-")),
                Text("Serving takes the cheapest for a token of what keeps its limits."),
                Text("Leave it out; lengths are --input and --answer, limits --slo."),
            )


def _show_largest(
    model: str, days: float | None, given: dict[str, Any], no_cache: bool, shown: Shown
) -> None:
    """The largest model that trains in so many days."""
    from gpuscope.capturing import keeping
    from gpuscope.cli.simulating import simulating
    from gpuscope.planning.largest import check_any, explained_largest, largest
    from gpuscope.views.i18n import choose_language

    check_any(model, days)
    lang = choose_language(shown.lang)

    def make() -> Explanation:
        with simulating(shown.quiet, lang) as tell:
            return explained_largest(largest(days or 0.0, tell, **given), days or 0.0)

    with keeping(not no_cache):
        show(make, shown)


def _show_training(
    model: str, given: dict[str, Any], wanted: Wanted, no_cache: bool, shown: Shown
) -> None:
    """A training's plan chosen, or an existing one judged."""
    from gpuscope.capturing import keeping
    from gpuscope.cli.simulating import simulating
    from gpuscope.planning.explanation import explained
    from gpuscope.planning.question import question_of
    from gpuscope.planning.search import search
    from gpuscope.planning.untried import speech_of_training
    from gpuscope.views.i18n import choose_language

    question = question_of(model, **given)
    why, framework, check = wanted.why, wanted.framework, wanted.check
    if check is not None:
        refuse_choosing(wanted)
    if why is not None:
        speech_of_training().check(why)
    lang = choose_language(shown.lang)

    def make() -> Explanation:
        with simulating(shown.quiet, lang) as tell:
            if check is not None:
                return checked_plan(question, check, tell)
            return explained(search(question, tell), why, framework)

    with keeping(not no_cache):
        show(make, shown)


def checked_plan(
    question: Question, path: Path, tell: Callable[[int, int, Candidate], None]
) -> Explanation:
    """An existing plan, judged."""
    from gpuscope.planning.check import check
    from gpuscope.planning.existing import existing
    from gpuscope.planning.explanation_check import explained_check

    return explained_check(check(*existing(question, path), tell))
