"""`gpuscope plan`: what to train, fine-tune or serve a model on, and how."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.cli.explanations import WhereWithoutFigures, show
from gpuscope.cli.fit import Method, Rank, Targets, show_tuning
from gpuscope.cli.groups import grouped
from gpuscope.cli.plan_serving import ServedLoad, show_serving
from gpuscope.cli.workload_arguments import NoCache
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuscope.document.blocks import Explanation
    from gpuscope.planning.types import Candidate, Question

# What does the work is imported when the command runs, so that --help stays fast.


def register(app: typer.Typer) -> None:
    """Add the `plan` command to the application."""
    short = Text("Choose devices and a split to train, fine-tune or serve: time, cost, what fits.")
    app.command("plan", short_help=short)(grouped(plan_command))


def plan_command(
    model: Annotated[str, typer.Argument(help=Text("A built-in decoder: llama-3.1-8b, ..."))],
    *,
    task: Annotated[str, typer.Option(help=Text("train, finetune or serve."))] = "train",
    method: Method = "lora",
    rank: Rank = 16,
    targets: Targets = "all-linear",
    load: ServedLoad,
    on: Annotated[
        str, typer.Option("--on", help=Text("Devices to choose from: h100,h200."))
    ] = "h200",
    devices: Annotated[str, typer.Option(help=Text("How many: 8, 1..8, 2,4."))] = "8",
    global_batch: Annotated[
        int, typer.Option("--global-batch", help=Text("Sequences of a step of the whole job."))
    ] = 64,
    seq: Annotated[int, typer.Option(help=Text("Tokens of a sequence."))] = 4096,
    goal: Annotated[str, typer.Option(help=Text("time, cost or energy."))] = "time",
    tokens: Annotated[
        str | None, typer.Option(help=Text("Tokens of the whole training: 100B."))
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("Prices of devices in a TOML file of yours.")),
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE", help=Text("Electricity: a country's letters, or g of CO2 a kWh.")
        ),
    ] = None,
    simulate: Annotated[
        int, typer.Option(help=Text("Candidates that are simulated, the best by a quick score."))
    ] = 8,
    why: Annotated[
        str | None, typer.Option(metavar="tp=4,pp=2", help=Text("What became of these candidates."))
    ] = None,
    framework: Annotated[
        str | None,
        typer.Option(
            "--for",
            help=Text(
                "Also write what starts it: torchtitan, fsdp2, accelerate, megatron, vllm, ..."
            ),
        ),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=Text("Judge an existing plan: torchtitan's TOML, or one with tp = 2, ..."),
        ),
    ] = None,
    no_cache: NoCache = False,
    shown: WhereWithoutFigures,
) -> None:
    """Choose devices, parallelism, batch and settings to train, to fine-tune or to serve."""
    from gpuscope.capturing import keeping
    from gpuscope.cli.simulating import simulating
    from gpuscope.errors import InvalidValueError
    from gpuscope.planning.explanation import explained
    from gpuscope.planning.question import question_of, tokens_of
    from gpuscope.planning.search import search
    from gpuscope.planning.tuning.search import question_of_tuning
    from gpuscope.planning.verb import check_task
    from gpuscope.planning.writers import WRITERS
    from gpuscope.views.i18n import choose_language

    check_task(task)
    whole = None if tokens is None else tokens_of(tokens)
    if task == "serve":
        if check is not None:
            raise InvalidValueError(
                Text("--check judges plans of trainings."),
                Text("A serving plan is judged by: gpuscope serve"),
                Text("Leave it out."),
            )
        show_serving(model, on, devices, load, simulate, prices, why, framework, shown)
        return
    if task == "finetune":
        if framework is not None or check is not None:
            raise InvalidValueError(
                Text("Fine-tuning plans are neither written nor checked."),
                Text("--for and --check know training in full."),
                Text("Leave them out."),
            )
        tuning = question_of_tuning(
            model,
            on=on,
            devices=devices,
            method=method,
            rank=rank,
            targets=targets,
            global_batch=global_batch,
            seq=seq,
            goal=goal,
            tokens=whole,
            simulate=simulate,
            prices=prices,
        )
        show_tuning(tuning, why, no_cache, shown)
        return
    question = question_of(
        model,
        on=on,
        devices=devices,
        global_batch=global_batch,
        seq=seq,
        goal=goal,
        tokens=whole,
        simulate=simulate,
        prices=prices,
        grid=grid,
    )
    if check is not None and (why is not None or framework is not None):
        raise InvalidValueError(
            Text("--check judges one plan and chooses none."),
            Text("--why and --for are about a choice."),
            Text("Leave them out."),
        )
    if framework is not None:
        WRITERS.get(framework)
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
