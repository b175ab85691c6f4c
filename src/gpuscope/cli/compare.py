"""`gpuscope compare`: saved runs and traces side by side, and why two of them differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.document.text import Text, plural

if TYPE_CHECKING:
    from gpuscope.run import Run


def register(app: typer.Typer) -> None:
    """Add the `compare` command to the application."""
    short = Text("Compare runs and traces: where they differ, and why.")
    app.command("compare", short_help=short)(compare_command)


def compare_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            help=Text("Runs saved with --output FILE, traces, or folders of one run's ranks.")
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help=Text("Print JSON (two runs only)."))
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("Also write an HTML report of all runs.")),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help=Text("Write each figure as SVG and PNG."))
    ] = None,
    lang: Annotated[str | None, typer.Option(help=Text("Language: en or zh."))] = None,
) -> None:
    """Compare runs and traces: side by side, and for two of them where they differ and why."""
    from gpuscope.atomic import check_writable
    from gpuscope.errors import InvalidValueError
    from gpuscope.views.i18n import choose_language

    language = choose_language(lang)
    if report is not None:
        check_writable(report)
    if figures is not None:
        from gpuscope.cli.results import check_figures

        check_figures(figures)
    if len(files) == 2 and any(_is_serving(file) for file in files):
        _compare_serving(files, as_json, report, lang)
        return
    runs = [run for file in files for run in runs_of(file)]
    if len(runs) < 2 or (as_json and len(runs) != 2):
        raise InvalidValueError(
            plural(
                "There is {count} run to compare.", "There are {count} runs to compare.", len(runs)
            ),
            Text("--json compares exactly two.") if as_json else Text("It takes two or more."),
            Text("Type: gpuscope compare A B (saved runs or traces)"),
        )
    _show(runs, as_json, language)
    _write(runs, report, figures, language)


def _is_serving(path: Path) -> bool:
    """Whether it is a saved serving run; told from its first bytes, read no further."""
    import zlib

    try:
        with path.open("rb") as file:
            start = file.read(4096)
        if start.startswith(b"\x1f\x8b"):
            start = zlib.decompressobj(31).decompress(start, 200)
    except (OSError, zlib.error):
        return False
    return b'"gpuscope.serving"' in start[:200]


def _compare_serving(
    files: list[Path], as_json: bool, report: Path | None, lang: str | None
) -> None:
    from gpuscope.cli.explanations import Shown, show
    from gpuscope.serving.compare import compare_serving
    from gpuscope.serving.document import load_serving

    first, second = (load_serving(file) for file in files)
    show(lambda: compare_serving(first, second), Shown(as_json=as_json, report=report, lang=lang))


def _write(runs: list[Run], report: Path | None, figures: Path | None, language: str) -> None:
    from gpuscope.cli.progress import note
    from gpuscope.views.i18n import tr

    done = []
    if report is not None:
        from gpuscope.views.html import write_report

        write_report(runs, report, language)
        done.append(report)
    if figures is not None:
        from gpuscope.cli.results import Result, write_figures

        done += write_figures(Result(tuple(runs)), figures, language)
    for path in done:
        note(tr("Wrote {path}", language, path=path), quiet=False)


def runs_of(path: Path) -> list[Run]:
    """The runs of a saved document, or the run that a trace or a folder of ranks recorded."""
    from gpuscope.loading import load
    from gpuscope.run.reader import load_runs
    from gpuscope.timeline.trace_files import kind_of

    if path.is_dir() or (path.is_file() and kind_of(path) in ("kineto", "nsys", "snapshot")):
        return [load(path)]
    return load_runs(path)


def _show(runs: list[Run], as_json: bool, lang: str) -> None:
    from gpuscope.analysis.compare import compare

    if as_json:
        from gpuscope.document.plain import dumps
        from gpuscope.run.document import comparison_document

        typer.echo(dumps(comparison_document(compare(*runs))))
        return
    from gpuscope.views.compare import difference, side_by_side
    from gpuscope.views.terminal import make_console

    console = make_console()
    console.print(side_by_side(runs, lang))
    if len(runs) == 2:
        console.print()
        console.print(difference(compare(*runs), lang))
