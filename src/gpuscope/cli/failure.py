"""What a failed command says: what happened, why, what to type next."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Any, TypeGuard

from gpuscope.cli import INTERRUPTED, language_of
from gpuscope.document.text import render
from gpuscope.errors import GpuscopeError
from gpuscope.views.i18n import tr

TRACEBACK_VARIABLE = "GPUSCOPE_TRACEBACK"


def is_foreign(error: BaseException) -> bool:
    """Return whether the command-line library deals with this error itself.

    These are its own usage errors and exits, and a reader of our output that has gone.
    """
    own = type(error).__module__.partition(".")[0] in ("typer", "click")
    return own or isinstance(error, BrokenPipeError)


def _is_interrupt(error: BaseException) -> bool:
    """Whether it is an interrupt, or what one became on its way.

    Python turns it into a RuntimeError where it comes while a class is made; a library that is
    being imported may turn it into an error of its own.
    """
    if isinstance(error, GpuscopeError):
        return False
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        seen = seen.__cause__ or seen.__context__
    return seen is not None


def is_full(error: BaseException) -> TypeGuard[OSError]:
    """Return whether what the output goes to has no more room, or fails.

    Files that are named are written elsewhere, and their errors are gpuscope's own.
    """
    if not isinstance(error, OSError) or error.filename is not None:
        return False
    return errno.errorcode.get(error.errno or 0) in ("ENOSPC", "EDQUOT", "EFBIG", "EIO")


def report(error: BaseException, context: Any = None) -> int:
    """Tell the user of an error on the standard error and return the exit code."""
    lang = language_of(sys.argv[1:])
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    if _is_interrupt(error):
        print(tr("Interrupted.", lang), file=sys.stderr)
        return INTERRUPTED
    if is_full(error):
        # Python flushes its standard output once more at its end: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _panel(
            tr("The standard output cannot be written.", lang),
            f"{error.strerror}.",
            tr("Free some room, or write elsewhere.", lang),
        )
        return 2
    if isinstance(error, GpuscopeError):
        _panel(*(render(part, lang) for part in (error.what, error.why, error.next_step)))
        return error.exit_code
    _panel(
        tr("Unexpected error: {kind}: {text}", lang, kind=type(error).__name__, text=str(error)),
        tr("This is a mistake in gpuscope.", lang),
        tr(
            "Please report it with what the same command prints under {variable}=1.",
            lang,
            variable=TRACEBACK_VARIABLE,
        ),
    )
    return 1


def _panel(what: str, why: str, next_step: str) -> None:
    from rich import box
    from rich.panel import Panel
    from rich.text import Text

    from gpuscope.views.terminal import make_console

    text = Text(what, style="bold")
    if why:
        text.append(f"\n{why}", style="not bold")
    if next_step:
        text.append(f"\n→ {next_step}", style="not bold cyan")
    make_console(stderr=True).print(
        Panel(text, box=box.ROUNDED, border_style="red", padding=(0, 1))
    )
