"""What is going on, on the standard error, and only for people."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Say = Callable[[str], None]


@contextmanager
def progress(quiet: bool, *, lines: bool = False) -> Iterator[Say]:
    """Show a spinner while the block runs; the yielded function changes its text.

    Where the standard error is no terminal it is silent, or with `lines` (what takes minutes, and
    may be killed in a log that nobody watches) writes each text with the seconds until then.
    Inside the block, what the workload's own code prints goes to the standard error, so that the
    standard output holds the result alone.
    """
    with redirect_stdout(sys.stderr):
        terminal = sys.stderr.isatty()
        if quiet or not (terminal or lines):
            yield lambda text: None
            return
        if not terminal:
            began = time.monotonic()
            yield lambda text: note(f"{time.monotonic() - began:4.0f} s  {text}", quiet)
            return
        from gpuscope.views.terminal import make_console

        with make_console(stderr=True).status("", spinner="dots") as status:
            yield lambda text: status.update(text)


def note(text: str, quiet: bool) -> None:
    """Say on the standard error what was done."""
    if not quiet:
        print(text, file=sys.stderr, flush=True)
