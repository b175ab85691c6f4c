"""`gpuscope analyze`: where the time of a recording went, and why."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.document.text import Text

# What does the work is imported when the command runs, so that --help stays fast.

if TYPE_CHECKING:
    from gpuscope.cli.results import Outputs
    from gpuscope.run import Run

TOP = 10


def register(app: typer.Typer) -> None:
    """Add the `analyze` command to the application."""
    short = Text("Say where a recording's time went, and why.")
    app.command("analyze", short_help=short)(analyze_command)


def analyze_command(
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE...",
            help=Text(
                "Traces of PyTorch's profiler (.json, .gz, .zst), a folder or glob of ranks, an "
                "Nsight Systems export (.sqlite), a PyTorch memory snapshot, or a saved run."
            ),
        ),
    ],
    rank: Annotated[
        str | None, typer.Option(metavar="N,N..", help=Text("Only these ranks: 0,3 or 0..7."))
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(metavar="N..M", help=Text("Only these marked steps, from 0: 2..4.")),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help=Text("What it ran on, if the trace does not say: h200."))
    ] = None,
    engine: Annotated[
        str, typer.Option(help=Text("Who reads the files: local (processes) or ray (a cluster)."))
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(help=Text("Files read at a time; by default one a core."))
    ] = None,
    top: Annotated[int, typer.Option(help=Text("Rows of each table."))] = TOP,
    as_json: Annotated[
        bool, typer.Option("--json", help=Text("Print the JSON document instead of the story."))
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help=Text("Save the JSON document."))
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help=Text("Write a self-contained HTML report."))
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("Write all ranks as one trace for Perfetto.")),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help=Text("Write each figure as SVG and PNG."))
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help=Text(
                "Hold every figure against the others and against the device: print those that "
                "cannot be; exit code 1 if there are any."
            ),
        ),
    ] = False,
    lang: Annotated[str | None, typer.Option(help=Text("Language: en or zh."))] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help=Text("Only the headline; no progress."))
    ] = False,
) -> None:
    """Say where a recording's time went, why the device was idle, and what to change first."""
    from gpuscope.cli.results import Outputs, check_outputs
    from gpuscope.views.i18n import choose_language

    outputs = Outputs(
        as_json=as_json,
        output=output,
        report=report,
        trace=trace,
        figures=figures,
        quiet=quiet,
        lang=choose_language(lang),
    )
    chosen_ranks, chosen_steps = _ranks(rank), _steps(steps)
    _check_top(top)
    check_outputs(outputs)
    run = _load(traces, chosen_ranks, chosen_steps, device, engine, workers, outputs)
    _finish(run, outputs, top, check)


def _load(
    traces: list[str],
    ranks: set[int] | None,
    steps: tuple[int, int] | None,
    device: str | None,
    engine: str,
    workers: int | None,
    outputs: Outputs,
) -> Run:
    from gpuscope.cli.progress import progress
    from gpuscope.loading import load
    from gpuscope.views.i18n import tr

    with progress(outputs.quiet or outputs.as_json) as say:
        say(tr("Reading {workload} …", outputs.lang, workload=traces[0]))

        def tell(done: int, total: int) -> None:
            if total > 1:
                say(tr("Read {done} of {total} …", outputs.lang, done=done, total=total))

        return load(
            list(traces),
            engine=engine,
            workers=workers,
            on=device,
            ranks=ranks,
            steps=steps,
            on_progress=tell,
        )


def _finish(run: Run, outputs: Outputs, top: int, check: bool) -> None:
    from gpuscope.cli.results import Result, show_result, write_result

    result = Result((run,))
    write_result(result, outputs)
    if check:
        _check(run, outputs.lang)
        return
    if outputs.as_json or outputs.quiet:
        show_result(result, outputs)
        return
    from gpuscope.views.terminal import make_console, render_run

    make_console().print(render_run(run, outputs.lang, top))


def _check(run: Run, lang: str) -> None:
    """Print which invariants the run violates, in place of its story."""
    from gpuscope.views.check import check_run, render_checked
    from gpuscope.views.terminal import make_console

    checked = check_run(run)
    make_console().print(render_checked(checked, lang))
    if checked.violations:
        raise typer.Exit(1)


def _ranks(text: str | None) -> set[int] | None:
    """The ranks that "0,3" or "0..7" names."""
    if text is None:
        return None
    ranks: set[int] = set()
    for part in text.split(","):
        first, last = _range(part, Text("rank"), "--rank 0,3 or --rank 0..7")
        ranks |= set(range(first, last + 1))
    return ranks


def _steps(text: str | None) -> tuple[int, int] | None:
    return None if text is None else _range(text, Text("step"), "--steps 2..4")


def _range(text: str, what: Text, example: str) -> tuple[int, int]:
    from gpuscope.errors import InvalidValueError

    found = re.fullmatch(r"\s*(\d{1,7})(?:\s*(?:\.\.|-)\s*(\d{1,7}))?\s*", text)
    first = int(found[1]) if found else 0
    last = int(found[2]) if found and found[2] else first
    if not found or last < first:
        raise InvalidValueError(
            Text("'{text}' names no {what}.", text=text, what=what),
            Text("A number or a range is wanted."),
            Text("Type: {command}", command=example),
        )
    return first, last


def _check_top(top: int) -> None:
    from gpuscope.errors import InvalidValueError

    if top < 1:
        raise InvalidValueError(
            Text("--top {top} leaves no row.", top=top), "", Text("Type: --top {top}", top=TOP)
        )
