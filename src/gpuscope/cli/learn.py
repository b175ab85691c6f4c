"""`gpuscope learn`: short lessons on how a GPU works, with live figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuscope.cli import explanations as shared
from gpuscope.document.text import Text, render

# The lessons run models; they are imported when the command runs, so that --help stays fast.


def register(app: typer.Typer) -> None:
    """Add the `learn` command to the application."""
    app.command("learn", short_help=Text("Short lessons on how a GPU works."))(learn_command)


def learn_command(
    name: Annotated[
        str | None, typer.Argument(metavar="[LESSON]", help=Text("A lesson's name or number."))
    ] = None,
    as_json: shared.AsJson = False,
    output: shared.Output = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("Write a page; without a lesson, the whole book.")),
    ] = None,
    figures: shared.Figures = None,
    lang: shared.Lang = None,
    quiet: shared.Quiet = False,
) -> None:
    """List the lessons, show one, or write them all as one page (--report book.html)."""
    from gpuscope.views.i18n import choose_language

    language = choose_language(lang)
    if name is None:
        _whole(as_json, output, report, language, quiet)
        return
    from gpuscope.learn.lessons import lesson_named

    chosen = name
    shown = shared.Shown(as_json, output, report, figures, language, quiet)
    shared.show(lambda: lesson_named(chosen), shown)


def _whole(as_json: bool, output: Path | None, report: Path | None, lang: str, quiet: bool) -> None:
    """The list of lessons; the book where a file is asked for."""
    from gpuscope.atomic import check_writable, write_document
    from gpuscope.cli.progress import note
    from gpuscope.document.plain import dumps
    from gpuscope.learn.lessons import book
    from gpuscope.views.explanation import book_document
    from gpuscope.views.html import write_book
    from gpuscope.views.i18n import tr

    for path in (output, report):
        if path is not None:
            check_writable(path)
    if not (as_json or output or report):
        _list(lang)
        return
    whole = book()
    if output is not None:
        write_document(book_document(whole), output)
        note(tr("Wrote {path}", lang, path=output), quiet)
    if report is not None:
        write_book(whole, report, lang)
        note(tr("Wrote {path}", lang, path=report), quiet)
    if as_json and output is None:
        typer.echo(dumps(book_document(whole)))


def _list(lang: str) -> None:
    from rich.table import Table
    from rich.text import Text as Line

    from gpuscope.learn.lessons import lesson_names
    from gpuscope.views.i18n import tr
    from gpuscope.views.terminal import make_console

    table = Table.grid(padding=(0, 2))
    for each in lesson_names():
        question = Line(render(each.question, lang), style="dim")
        table.add_row(
            Line(str(each.number), style="dim", justify="right"),
            Line(each.name, style="bold"),
            Line("\n").join([Line(render(each.title, lang)), question]),
        )
    console = make_console()
    console.print(table)
    console.print()
    console.print(tr("Read one: gpuscope learn 1   All as a page: --report book.html", lang))
