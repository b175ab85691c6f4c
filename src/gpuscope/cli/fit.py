"""`gpuscope fit`: does fine-tuning fit on these devices, and what would make it fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuscope.cli.explanations import WhereWithoutFigures, show
from gpuscope.cli.groups import Group, grouped
from gpuscope.cli.workload_arguments import ADAPTERS, LENGTHS, NoCache
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.cli.explanations import Shown
    from gpuscope.document.blocks import Explanation
    from gpuscope.planning.tuning.types import TuningQuestion

# What does the work is imported when the command runs, so that --help stays fast.

_TUNED_BY: dict[str, tuple[Any, Any]] = {
    "method": (
        Annotated[str, typer.Option(help=Text("full, lora or qlora; several: lora,qlora."))],
        "lora",
    ),
    **ADAPTERS,
    **LENGTHS,
}
TunedBy = Annotated[dict[str, Any], Group(_TUNED_BY, dict)]
"""What fine-tuning alone asks: arguments of `question_of_tuning`."""


def register(app: typer.Typer) -> None:
    """Add the `fit` command to the application."""
    short = Text("Does fine-tuning fit on this card, and what would make it fit?")
    app.command("fit", short_help=short)(grouped(fit_command))


def fit_command(
    model: Annotated[str, typer.Argument(help=Text("A built-in decoder: llama-3.1-8b, ..."))],
    *,
    on: Annotated[str, typer.Option("--on", help=Text("Devices: rtx-4090, or several."))] = "h200",
    tuned_by: TunedBy,
    devices: Annotated[str, typer.Option(help=Text("How many: 8, 1..8, 2,4."))] = "1",
    global_batch: Annotated[
        int, typer.Option("--global-batch", help=Text("Sequences of a step of the whole job."))
    ] = 16,
    seq: Annotated[int, typer.Option(help=Text("Tokens of a sequence."))] = 2048,
    simulate: Annotated[int, typer.Option(help=Text("Candidates that are simulated."))] = 2,
    prices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("Prices of devices in a TOML file of yours.")),
    ] = None,
    no_cache: NoCache = False,
    shown: WhereWithoutFigures,
) -> None:
    """Say whether fine-tuning fits, what holds the memory, and what would make it fit."""
    from gpuscope.planning.tuning.search import question_of_tuning

    question = question_of_tuning(
        model,
        on=on,
        devices=devices,
        global_batch=global_batch,
        seq=seq,
        simulate=simulate,
        prices=prices,
        **tuned_by,
    )
    show_tuning(question, None, no_cache, shown)


def show_tuning(
    question: TuningQuestion,
    why: str | None,
    no_cache: bool,
    shown: Shown,
    check: Path | None = None,
) -> bool:
    """Answer a question of fine-tuning where the user wants it, or judge the plan of a file.

    Returns:
        Whether anything fits.
    """
    from gpuscope.capturing import keeping
    from gpuscope.cli.simulating import simulating
    from gpuscope.planning.tuning.check import check_tuning, existing_tuning, explained_tuning_check
    from gpuscope.planning.tuning.explanation import explained_tuning
    from gpuscope.planning.tuning.search import search_tuning
    from gpuscope.planning.tuning.untried import SPEECH
    from gpuscope.views.i18n import choose_language

    lang = choose_language(shown.lang)
    existing = None if check is None else existing_tuning(question, check)
    if why is not None:
        SPEECH.check(why)
    fits = True

    def make() -> Explanation:
        nonlocal fits
        with simulating(shown.quiet, lang) as tell:
            if existing is not None:
                return explained_tuning_check(check_tuning(*existing, tell))
            found = search_tuning(question, tell)
            fits = found.best is not None
            return explained_tuning(found, why, question.framework)

    with keeping(not no_cache):
        show(make, shown)
    return fits
