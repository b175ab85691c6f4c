"""`gpuscope analyze`: where the time of a recording went, and why."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

# What does the work is imported when the command runs, so that --help stays fast.

if TYPE_CHECKING:
    from gpuscope.cli.results import Outputs
    from gpuscope.run import Run

TOP = 10


def register(app: typer.Typer) -> None:
    """Add the `analyze` command to the application."""
    short = "Say where a recording's time went, and why."
    app.command("analyze", short_help=short)(analyze_command)


def analyze_command(
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE...",
            help="Traces of PyTorch's profiler (.json, .gz, .zst), a folder or glob of ranks, an "
            "Nsight Systems export (.sqlite), a PyTorch memory snapshot, or a saved run.",
        ),
    ],
    rank: Annotated[
        str | None, typer.Option(metavar="N,N..", help="Only these ranks: 0,3 or 0..7.")
    ] = None,
    steps: Annotated[
        str | None, typer.Option(metavar="N..M", help="Only these marked steps, from 0: 2..4.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="What it ran on, if the trace does not say: h200.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Who reads the files: local (processes) or ray (a cluster).")
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Files read at a time; by default one a core.")
    ] = None,
    top: Annotated[int, typer.Option(help="Rows of each table.")] = TOP,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the JSON document instead of the story.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the JSON document.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a self-contained HTML report.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all ranks as one trace for Perfetto."),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write each figure as SVG and PNG.")
    ] = None,
    lang: Annotated[str | None, typer.Option(help="Language: en or zh.")] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only the headline; no progress.")
    ] = False,
) -> None:
    """Say where a recording's time went, why the device was idle, and what to change first."""
    from gpuscope.cli.results import Outputs, check_outputs
    from gpuscope.views.i18n import choose_language

    outputs = Outputs(
        as_json=as_json, output=output, report=report, trace=trace, figures=figures,
        quiet=quiet, lang=choose_language(lang),
    )  # fmt: skip
    chosen_ranks, chosen_steps = _ranks(rank), _steps(steps)
    _check_top(top)
    check_outputs(outputs)
    run = _load(traces, chosen_ranks, chosen_steps, device, engine, workers, outputs)
    _finish(run, outputs, top)


def _load(
    traces: list[str], ranks: set[int] | None, steps: tuple[int, int] | None,
    device: str | None, engine: str, workers: int | None, outputs: Outputs,
) -> Run:  # fmt: skip
    from gpuscope.cli.progress import progress
    from gpuscope.loading import load
    from gpuscope.views.i18n import tr

    with progress(outputs.quiet or outputs.as_json) as say:
        say(tr("Reading {workload} …", outputs.lang, workload=traces[0]))

        def tell(done: int, total: int) -> None:
            if total > 1:
                say(tr("Read {done} of {total} …", outputs.lang, done=done, total=total))

        return load(
            list(traces), engine=engine, workers=workers, device=device, ranks=ranks, steps=steps,
            progress=tell,
        )  # fmt: skip


def _finish(run: Run, outputs: Outputs, top: int) -> None:
    from gpuscope.cli.results import Result, show_result, write_result

    result = Result((run,))
    write_result(result, outputs)
    if outputs.as_json or outputs.quiet:
        show_result(result, outputs)
        return
    from gpuscope.views.terminal import make_console, render_run

    make_console().print(render_run(run, outputs.lang, top))


def _ranks(text: str | None) -> set[int] | None:
    """The ranks that "0,3" or "0..7" names."""
    if text is None:
        return None
    ranks: set[int] = set()
    for part in text.split(","):
        first, last = _range(part, "rank", "--rank 0,3 or --rank 0..7")
        ranks |= set(range(first, last + 1))
    return ranks


def _steps(text: str | None) -> tuple[int, int] | None:
    return None if text is None else _range(text, "step", "--steps 2..4")


def _range(text: str, what: str, example: str) -> tuple[int, int]:
    from gpuscope.errors import InvalidValueError

    found = re.fullmatch(r"\s*(\d{1,7})(?:\s*(?:\.\.|-)\s*(\d{1,7}))?\s*", text)
    first = int(found[1]) if found else 0
    last = int(found[2]) if found and found[2] else first
    if not found or last < first:
        raise InvalidValueError(
            f"'{text}' names no {what}.", "A number or a range is wanted.", f"Type: {example}"
        )
    return first, last


def _check_top(top: int) -> None:
    from gpuscope.errors import InvalidValueError

    if top < 1:
        raise InvalidValueError(f"--top {top} leaves no row.", "", f"Type: --top {TOP}")
