"""`gpuscope explain error`: what an error message means, and what to try first."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.cli.explanations import Where, show
from gpuscope.cli.groups import grouped
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.document.blocks import Explanation


def register(topics: typer.Typer) -> None:
    """Add the `error` topic."""
    topics.command("error")(grouped(error_command))


def error_command(
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT|FILE|-", help=Text("The message, a log file, or - to read stdin.")
        ),
    ],
    dump: Annotated[
        Path | None,
        typer.Option(
            help=Text("Dumps of PyTorch's flight recorder: a folder (one file a rank), or a file.")
        ),
    ] = None,
    *,
    shown: Where,
) -> None:
    """Error: its cause, how sure that is, and what to try first."""
    from gpuscope.explanation.error import error, text_of

    def make() -> Explanation:
        if text == "-":
            # A newline keeps it from being taken for a file's name.
            return error(text_of(sys.stdin.buffer.read(), "What came on stdin") + "\n", dump)
        return error(text, dump)

    show(make, shown)
