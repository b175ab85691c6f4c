"""What a failed command says: what happened, why, what to type next."""

from __future__ import annotations

import itertools
import os
import sys
import traceback
from typing import Any

from gpuscope.errors import GpuscopeError
from gpuscope.views.i18n import choose_language, tr

TRACEBACK_VARIABLE = "GPUSCOPE_TRACEBACK"


def is_foreign(error: BaseException) -> bool:
    """Return whether the command-line library deals with this error itself.

    These are its own usage errors and exits, and a reader of our output that has gone.
    """
    own = type(error).__module__.partition(".")[0] in ("typer", "click")
    return own or isinstance(error, BrokenPipeError)


def report(error: BaseException, context: Any = None) -> int:
    """Tell the user of an error on the standard error and return the exit code."""
    lang = _language(context)
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt):
        print(tr("Interrupted.", lang), file=sys.stderr)
        return 130
    if isinstance(error, GpuscopeError):
        _panel(error.what, error.why, error.next_step)
        return error.exit_code
    _panel(
        tr("Unexpected error: {kind}: {text}", lang, kind=type(error).__name__, text=str(error)),
        tr("This is a mistake in gpuscope.", lang),
        tr(
            "Please report it with what the same command prints under {variable}=1.", lang,
            variable=TRACEBACK_VARIABLE,
        ),
    )  # fmt: skip
    return 1


def _language(context: Any) -> str:
    """The language for the error: that of the arguments where they name one."""
    arguments = sys.argv[1:]
    asked = [b for a, b in itertools.pairwise(arguments) if a == "--lang"]
    asked += [a.partition("=")[2] for a in arguments if a.startswith("--lang=")]
    try:
        return choose_language(asked[-1] if asked else None)
    except GpuscopeError:
        return "en"


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
