"""What is going on, on the standard error, and only for people."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuscope.cli import language_of
from gpuscope.views.i18n import tr

if TYPE_CHECKING:
    from collections.abc import Callable

    Say = Callable[[str], None]

FIRST_S = 1.5
"""Where the standard error is no terminal: what takes longer says what it does."""

AGAIN_S = 10.0
"""And again, as long as nothing new is said."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What is going on, and results that come before the last.

    Attributes:
        say: shows what is done now, in place of what was shown.
        keep: writes a line that stays.
    """

    say: Say
    keep: Say


@contextmanager
def progress(quiet: bool, *, lines: bool = False) -> Iterator[Say]:
    """`showing`, for what has nothing to tell before it ends."""
    with showing(quiet, lines=lines) as shown:
        yield shown.say


@contextmanager
def showing(quiet: bool, *, lines: bool = False) -> Iterator[Progress]:
    """Show a spinner while the block runs; what is yielded changes its text.

    Where the standard error is no terminal (a log, a pipe) it writes lines, each with the seconds
    until then: what goes on after a second and a half, and every ten seconds; or with `lines` (what
    takes minutes, and may be killed in a log that nobody watches) each text.
    Inside the block, what the workload's own code prints goes to the standard error, so that the
    standard output holds the result alone.
    """
    with redirect_stdout(sys.stderr):
        if quiet:
            yield Progress(lambda text: None, lambda text: None)
            return
        if not sys.stderr.isatty():
            with _Log(lines) as log:
                yield Progress(log.say, log.keep)
            return
        from gpuscope.views.terminal import make_console

        console = make_console(stderr=True)
        with console.status("", spinner="dots") as status:
            yield Progress(status.update, lambda text: console.print(text, markup=False))


class _Log:
    """Lines for who reads them later."""

    def __init__(self, each: bool) -> None:
        self._each, self._text = each, tr("Getting ready …", language_of(sys.argv[1:]))
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)

    def __enter__(self) -> _Log:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def say(self, text: str) -> None:
        """Something else is done now."""
        self._text = text
        if self._each:
            self.keep(text)

    def keep(self, text: str) -> None:
        """A line, with the seconds until now."""
        note(f"{time.monotonic() - self._began:4.0f} s  {text}", False)

    def _go_on(self) -> None:
        wait_s = FIRST_S
        while not self._over.wait(wait_s):
            self.keep(self._text)
            wait_s = AGAIN_S


def note(text: str, quiet: bool) -> None:
    """Say on the standard error what was done."""
    if not quiet:
        print(text, file=sys.stderr, flush=True)
