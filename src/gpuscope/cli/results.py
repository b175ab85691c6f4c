"""Where the result of a verb goes: files, the terminal, the standard output."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gpuscope.atomic import check_writable
from gpuscope.cli.progress import note
from gpuscope.run import Refused, Run
from gpuscope.views.i18n import tr

if TYPE_CHECKING:
    from gpuscope.run import Remedy
    from gpuscope.views.report.what_if_sizes import Varied
    from gpuscope.views.sweep import Worth


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where the result goes."""

    as_json: bool = False
    output: Path | None = None
    report: Path | None = None
    trace: Path | None = None
    figures: Path | None = None
    quiet: bool = False
    lang: str = "en"


@dataclass(frozen=True, slots=True)
class Result:
    """What was predicted: runs, and the first one with other options; or the points of a sweep,
    and what resources are worth; and the devices that cannot run it, with the reason."""

    runs: tuple[Run, ...]
    field: str = ""
    values: tuple[float, ...] = ()
    worth: tuple[Worth, ...] = ()
    varied: tuple[Varied, ...] = ()
    refused: tuple[Refused, ...] = ()
    remedies: tuple[Remedy, ...] | None = None


def check_outputs(outputs: Outputs) -> None:
    """Refuse files that could not be written, before the work that would fill them.

    Raises:
        InputFileError: as `gpuscope.atomic.check_writable`.
    """
    for path in (outputs.output, outputs.report, outputs.trace):
        if path is not None:
            check_writable(path)
    if outputs.figures is not None:
        check_figures(outputs.figures)


def check_figures(folder: Path) -> None:
    """Refuse figures that could not be written, before the work that they show.

    Raises:
        InputFileError: the folder cannot be written.
        MissingPackageError: matplotlib is not installed.
    """
    from gpuscope.errors import require_package
    from gpuscope.views.pictures import check_folder

    require_package("matplotlib", "Writing figures", "figures")
    check_folder(folder)


def result_document(result: Result) -> dict[str, Any]:
    """Return the JSON document of a sweep, of one run or of several."""
    from gpuscope.run.document import run_document, runs_document, sweep_document

    if result.field:
        return sweep_document(
            result.field, list(zip(result.values, result.runs, strict=True)), result.worth
        )
    if len(result.runs) == 1 and not result.refused:
        return run_document(result.runs[0])
    return runs_document(result.runs, result.refused)


def write_result(result: Result, outputs: Outputs) -> None:
    """Write the files asked for; each is there in full or not at all."""
    done = []
    if outputs.output is not None:
        from gpuscope.atomic import write_document

        write_document(result_document(result), outputs.output)
        done.append(outputs.output)
    if outputs.report is not None:
        from gpuscope.views.html import write_report

        write_report(
            result.runs,
            outputs.report,
            outputs.lang,
            varied=result.varied,
            refused=result.refused,
            remedies=result.remedies,
        )
        done.append(outputs.report)
    if outputs.trace is not None:
        done += _write_traces(result, outputs.trace)
    if outputs.figures is not None:
        done += write_figures(result, outputs.figures, outputs.lang, outputs.quiet)
    for path in done:
        note(tr("Wrote {path}", outputs.lang, path=path), outputs.quiet)


def write_figures(result: Result, folder: Path, lang: str, quiet: bool = False) -> list[Path]:
    """Write the figures of a sweep, of one run or of several; return the folder."""
    from gpuscope.views.pictures import missing_font, write_blocks
    from gpuscope.views.run_figures.figures import runs_figures, sweep_figures

    if result.field:
        blocks = sweep_figures(result.field, result.values, result.runs)
    else:
        blocks = runs_figures(result.runs)
    problem = missing_font(lang)
    if problem:
        note(problem, quiet)
    write_blocks(blocks, folder, lang)
    return [folder]


def _write_traces(result: Result, path: Path) -> list[Path]:
    """One trace a run; several get the device's name before the ending."""
    from gpuscope.timeline.perfetto import write_chrome_trace
    from gpuscope.views.figures import distinct_names

    if len(result.runs) == 1:
        paths = [path]
    else:
        stem, dot, ending = path.name.partition(".")
        paths = [
            path.with_name(f"{stem}-{name.replace(' ', '-')}{dot}{ending}")
            for name in distinct_names(result.runs)
        ]
    for run, each in zip(result.runs, paths, strict=True):
        write_chrome_trace(run.timeline, each, name=run.name)
    return paths


def show_result(result: Result, outputs: Outputs) -> None:
    """Print the JSON document if it was asked for and not saved; else the story."""
    if outputs.as_json:
        if outputs.output is None:
            from gpuscope.document.plain import dumps

            typer.echo(dumps(result_document(result)))
        return
    from gpuscope.views.terminal import make_console

    console = make_console()
    for part in _story(result, outputs):
        console.print(part)


def _story(result: Result, outputs: Outputs) -> list[Any]:
    from gpuscope.views.terminal import render_headline, render_run

    if result.field or len(result.runs) > 1 or result.refused:
        return _several(result, outputs.lang)
    show = render_headline if outputs.quiet else render_run
    return [show(result.runs[0], outputs.lang)]


def _several(result: Result, lang: str) -> list[Any]:
    """A job on more and more devices, the points of a sweep, or runs side by side."""
    from gpuscope.views.compare import side_by_side
    from gpuscope.views.scaling import is_scaling, render_scaling
    from gpuscope.views.sweep import render_sweep, render_worth

    if is_scaling(result.runs):
        return [render_scaling(result.runs, lang)]
    if result.field:
        points = list(zip(result.values, result.runs, strict=True))
        worth = [render_worth(result.worth, lang)] if result.worth else []
        return [render_sweep(result.field, points, lang), *worth]
    return [side_by_side(result.runs, lang, result.refused)]
