"""What `explain` and `learn` share: where an explanation goes (terminal, JSON, page, pictures)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuscope.atomic import check_writable
from gpuscope.cli.groups import Group
from gpuscope.cli.progress import note
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.document.blocks import Explanation

On = Annotated[str, typer.Option("--on", help=Text("Device or cluster: h200, 8xh200, mi300x, ..."))]
Dtype = Annotated[str, typer.Option(help=Text("bf16, fp16, fp8, tf32, fp32, fp64, int8, ..."))]
AsJson = Annotated[bool, typer.Option("--json", help=Text("Print the JSON document."))]
Output = Annotated[Path | None, typer.Option(metavar="FILE", help=Text("Save the JSON document."))]
Report = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help=Text("Write a page: one self-contained HTML file.")),
]
Figures = Annotated[
    Path | None, typer.Option(metavar="DIR", help=Text("Write each figure as SVG and PNG."))
]
Lang = Annotated[str | None, typer.Option(help=Text("Language: en or zh."))]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help=Text("Only the summary."))]


@dataclass(frozen=True, slots=True)
class Shown:
    """Where an explanation goes."""

    as_json: bool = False
    output: Path | None = None
    report: Path | None = None
    figures: Path | None = None
    lang: str | None = None
    quiet: bool = False


_MEMBERS: dict[str, tuple[Any, Any]] = {
    "as_json": (AsJson, False),
    "output": (Output, None),
    "report": (Report, None),
    "figures": (Figures, None),
    "lang": (Lang, None),
    "quiet": (Quiet, False),
}

Where = Annotated[Shown, Group(_MEMBERS, Shown)]
"""Where an explanation goes."""
WhereWithoutFigures = Annotated[Shown, Group(_MEMBERS, Shown).without("figures")]
"""The same for what draws none."""


def show(
    make: Callable[[], Explanation],
    shown: Shown,
    page: Callable[[Explanation, Path, str], None] | None = None,
) -> None:
    """Check the outputs, make the explanation, write its files and print it.

    Args:
        make: makes it; called once, after the outputs were found to be writable.
        shown: where it goes.
        page: writes it as a page, in a language; None: as the page of an explanation.

    Raises:
        InputFileError: a file cannot be written.
    """
    from gpuscope.views.i18n import choose_language, tr

    lang = choose_language(shown.lang)
    for path in (shown.output, shown.report):
        if path is not None:
            check_writable(path)
    if shown.figures is not None:
        from gpuscope.cli.results import check_figures

        check_figures(shown.figures)
    explanation = make()
    done: list[Path] = []
    if shown.output is not None:
        from gpuscope.atomic import write_document
        from gpuscope.views.explanation import explanation_document

        write_document(explanation_document(explanation), shown.output)
        done.append(shown.output)
    if shown.report is not None:
        from gpuscope.views.html import write_explanation

        (page or write_explanation)(explanation, shown.report, lang)
        done.append(shown.report)
    if shown.figures is not None:
        from gpuscope.views.pictures import missing_font, write_pictures

        problem = missing_font(lang)
        if problem:
            note(problem, shown.quiet)
        drawn = write_pictures(explanation, shown.figures, lang)
        done += drawn
        if not drawn:
            note(tr("There is no chart in this explanation to write.", lang), shown.quiet)
    for path in done:
        note(tr("Wrote {path}", lang, path=path), shown.quiet)
    _print(explanation, shown, lang)


def write_page(explanation: Explanation, shown: Shown) -> None:
    """Write the page alone, where one is asked for: of what prints a document of its own.

    Raises:
        InputFileError: the file cannot be written.
    """
    from gpuscope.views.html import write_explanation
    from gpuscope.views.i18n import choose_language, tr

    if shown.report is None:
        return
    lang = choose_language(shown.lang)
    write_explanation(explanation, shown.report, lang)
    note(tr("Wrote {path}", lang, path=shown.report), shown.quiet)


def _print(explanation: Explanation, shown: Shown, lang: str) -> None:
    if shown.as_json:
        if shown.output is None:
            from gpuscope.document.plain import dumps
            from gpuscope.views.explanation import explanation_document

            typer.echo(dumps(explanation_document(explanation)))
        return
    from gpuscope.views.explanation_terminal import render_explanation
    from gpuscope.views.terminal import make_console

    console = make_console()
    for part in render_explanation(explanation, lang, brief=shown.quiet):
        console.print(part)
