"""The console that everything is printed on."""

from __future__ import annotations

from typing import IO

from rich.console import Console

WIDTH = 100
"""Columns that output uses at most; wider terminals leave the rest empty."""


def make_console(file: IO[str] | None = None, *, stderr: bool = False) -> Console:
    """Return a console of at most `WIDTH` columns; a pipe gets plain text of `WIDTH` columns."""
    console = Console(file=file, stderr=stderr, highlight=False, emoji=False, markup=False)
    # A pipe has no width; rich would take 80 and cut tables.
    console.width = min(WIDTH, console.width) if console.is_terminal else WIDTH
    return console
