"""`gpuscope bench`: what this machine really reaches, and which of two machines is ill."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.cli import workload_arguments as given
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.cli.bench_output import Shown
    from gpuscope.measurement.bench.run import Options
    from gpuscope.measurement.bench.types import BenchResult

# What does the work is imported when the command runs, so that --help stays fast.

INTERRUPTED = 130
"""Exit code where the user stopped it; what was measured is saved."""


def register(app: typer.Typer) -> None:
    """Add the `bench` command to the application."""
    app.command("bench", short_help=Text("Measure what this machine can really reach."))(
        bench_command
    )


def bench_command(
    only: Annotated[
        str | None, typer.Option(help=Text("Only these benches, such as matmul,attention."))
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=Text("A few points each; under a minute."))
    ] = (False),
    device: Annotated[
        str | None,
        typer.Option(help=Text("cuda, cuda:1, cpu, ...; this machine's GPU by default.")),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(help=Text("How many devices may take part; all by default."))
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help=Text("Folder for the result; named after the machine.")
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help=Text("Go on with the run in that folder."))
    ] = False,
    replay: Annotated[
        Path | None, typer.Option(help=Text("Show a saved bench instead of measuring."))
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="A B", help=Text("Compare two saved benches: which machine is ill?")),
    ] = None,
    save: Annotated[
        bool,
        typer.Option(
            "--save", help=Text("Store as this machine's calibration: predict --on this.")
        ),
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help=Text("List the benches."))] = False,
    as_json: given.AsJson = False,
    report: given.Report = None,
    lang: given.Lang = None,
    quiet: given.Quiet = False,
) -> None:
    """Measure this machine's ceilings: kernels, memory, copies, host, power, collectives."""
    from gpuscope.cli import bench_output as out
    from gpuscope.cli.bench_save import save_bench_as_calibration
    from gpuscope.measurement.bench.run import Options
    from gpuscope.views.i18n import choose_language

    shown = out.Shown(as_json, report, choose_language(lang), quiet)
    shown.check()
    if listing:
        out.show_list(shown)
    elif compare is not None:
        out.show_comparison(*compare, shown)
    elif replay is not None:
        from gpuscope.measurement.bench.store import load_bench

        replayed = load_bench(replay)
        out.show_result(replayed, shown, None)
        if save:
            save_bench_as_calibration(replayed, shown, output)
    else:
        names = given.names_in(only) if only else None
        options = Options(names, quick, device, gpus, resume)
        result, folder = _measure(options, output, shown)
        out.show_result(result, shown, folder)
        if save:
            save_bench_as_calibration(result, shown)
        if result.interrupted:
            raise typer.Exit(INTERRUPTED)


def _measure(options: Options, output: Path | None, shown: Shown) -> tuple[BenchResult, Path]:
    from gpuscope.cli import bench_output as out
    from gpuscope.cli.progress import progress
    from gpuscope.measurement.bench.collective_runs import join_as_rank
    from gpuscope.measurement.bench.run import folder_for, run_bench

    if join_as_rank(options.only, options.device, quick=options.quick):
        raise typer.Exit
    folder = folder_for(options, output)
    with progress(shown.quiet) as say:
        result = run_bench(
            options,
            folder,
            progress=lambda p: say(out.progress_text(p, shown.lang)),
            notice=lambda n: out.warn(n, shown),
        )
    return result, folder
