"""`gpuscope advise`: what to change, how much it gains, and what not to do; nothing is run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.cli import explanations as to
from gpuscope.cli import parallel_arguments as split
from gpuscope.cli import workload_arguments as given
from gpuscope.cli.groups import grouped
from gpuscope.document.text import Text

# What does the work is imported when the command runs, so that --help stays fast.

if TYPE_CHECKING:
    from pathlib import Path

    from gpuscope.cli.advising import Advised
    from gpuscope.document.blocks import Explanation


def register(app: typer.Typer) -> None:
    """Add the `advise` command to the application."""
    short = Text("What to change, how much it gains, what would hurt; predicted.")
    app.command("advise", short_help=short)(grouped(advise_command))


def advise_command(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKLOAD|TRACE",
            help=Text(
                "A built-in model (see: gpuscope models), file.py:function, script.py, a Hugging "
                "Face config.json; or a recording: a trace, a folder of ranks, a saved run."
            ),
        ),
    ] = None,
    *,
    on: Annotated[
        str | None,
        typer.Option(help=Text("Device or cluster: h200, 8xh200, this."), show_default="h200"),
    ] = None,
    objective: Annotated[
        str, typer.Option(help=Text("What better means: time, memory, energy or cost."))
    ] = "time",
    allow: Annotated[
        str | None,
        typer.Option(
            metavar="NUMERICS",
            help=Text("Also combine what changes the results: fp8,int8,int4,recipe."),
        ),
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="NAMES", help=Text("Consider only these changes."))
    ] = None,
    without: Annotated[
        str | None, typer.Option(metavar="NAMES", help=Text("Leave these changes out."))
    ] = None,
    batch_advice: Annotated[
        bool, typer.Option("--batch-advice", help=Text("Also find the largest and the best batch."))
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="AXIS=SIZE",
            help=Text("Size of an ONNX graph's dynamic axis: batch=8. May be repeated."),
        ),
    ] = None,
    engine: given.GraphEngine = None,
    lengths: Annotated[
        str | None,
        typer.Option(
            metavar="TOKENS|FILE",
            help=Text(
                "Also find the buckets to pad sequences to, by their lengths: 256..2048, "
                "lognormal:400,0.8, or a file of numbers."
            ),
        ),
    ] = None,
    save: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help=Text("Keep all forecasts for gpuscope optimize --advice.")
        ),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help=Text("List all changes and stop."))
    ] = False,
    calibration: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|FOLDER", help=Text("Constants measured (gpuscope bench --save).")
        ),
    ] = None,
    options: given.OptionsOrScript,
    parallel: split.Parallel,
    shown: to.Where,
) -> None:
    """Predict every change that fits, alone and in the best combination; name what would hurt.

    Nothing is run and no GPU is needed. For a recording, whose code is not at hand, gains are
    bounds that its timeline gives.
    """
    from gpuscope.cli.advising import Request, advice_for, list_changes

    if listed:
        to.show(list_changes, shown)
        return
    if target is None:
        from gpuscope.errors import InvalidValueError

        raise InvalidValueError(
            Text("No workload is named."),
            "",
            Text("Type for example: gpuscope advise gpt2 --task train"),
        )
    from gpuscope.cli.onnx_settings import axes_in

    axes = axes_in(settings or ())
    request = Request(
        target,
        on,
        replace(options, parallel=parallel, axes=axes, engine=engine),
        objective,
        given.names_in(allow),
        given.names_in(only),
        given.names_in(without),
        batch_advice,
        calibration,
        save,
        lengths,
    )

    made: list[Advised] = []

    def make() -> Explanation:
        made.append(advice_for(request, shown.quiet or shown.as_json, shown.lang))
        return made[0].explanation

    def page(explanation: Explanation, path: Path, lang: str) -> None:
        made[0].write(path, lang)

    to.show(make, shown, page)
