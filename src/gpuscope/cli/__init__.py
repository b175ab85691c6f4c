"""The command line: one file a verb, each thin; here, its first and its last moments.

This is the first file of it that is read, and it imports nothing: from `main` on an interrupt
ends the process with "Interrupted." and 130, whatever is being imported or taken down. Only while
a verb runs is it Python's own `KeyboardInterrupt`, so that files and processes are tidied up, and
verbs can keep what they have measured.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

INTERRUPTED = 130
"""Exit code of an interrupted command, as shells give it to what SIGINT ended."""

_RUN_HERE = ("measure", "profile")
"""Verbs that run users' code for what it does, in this process."""


def main() -> None:
    """Run the command line; the console script `gpuscope`."""
    try:
        _main()
    except KeyboardInterrupt:  # before the handler was there
        end_at_once()


def _main() -> None:
    import atexit
    import signal
    import sys

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it may be ignored (nohup)
        signal.signal(signal.SIGINT, end_at_once)
    sys.unraisablehook = _interrupt_again
    ended: list[int] = []
    atexit.register(_leave, ended)  # registered first, it runs last

    from gpuscope.cli.app import main as run

    try:
        run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            ended.append(end.code or 0)
        raise


def end_at_once(number: int = 0, frame: Any = None) -> None:
    """Say "Interrupted." and end the process; SIGINT's handler where there is nothing to tidy."""
    import os
    import signal
    import sys

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        from gpuscope.views.i18n import tr

        told = tr("Interrupted.", language_of(sys.argv[1:]))
    except BaseException:  # it may have come in the middle of that very import
        told = "Interrupted."
    try:
        os.write(2, f"{told}\n".encode(sys.stderr.encoding or "utf-8", "replace"))
    finally:
        os._exit(INTERRUPTED)


def interrupts_raise(wanted: bool) -> None:
    """Let an interrupt raise `KeyboardInterrupt`, or end the process at once again.

    Nothing happens in a process that does not run `main`, or whose verb has a handler of its own.
    """
    import signal

    before, after = signal.default_int_handler, end_at_once
    if wanted:
        before, after = after, before  # type: ignore[assignment]
    if main_runs() and signal.getsignal(signal.SIGINT) is before:
        signal.signal(signal.SIGINT, after)


def main_runs() -> bool:
    """Whether this process is a command of `gpuscope`, not one that uses its parts."""
    import sys

    return sys.unraisablehook is _interrupt_again


def _interrupt_again(unraisable: Any) -> None:
    """Raise an interrupt anew that came where Python cannot raise (in a `__del__`, a callback)."""
    import sys

    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    import _thread
    from time import sleep

    def later() -> None:
        sleep(0.01)  # here, too, it could not be raised
        _thread.interrupt_main()

    _thread.start_new_thread(later, ())


def _leave(ended: list[int]) -> None:
    """End the process once all is written, without taking a million objects down one by one.

    That lasts longer than many a command, and an interrupt in it would end in silence. Users' own
    code may count on it, though: its files that nobody closed are written then.
    """
    import os
    import sys

    own = any(word in _RUN_HERE or ".py" in word for word in sys.argv[1:])
    if not ended or own or os.environ.get("GPUSCOPE_PLUGINS") or sys.gettrace() or sys.getprofile():
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # Python tells of it in its own way
        return
    os._exit(ended[0])


def language_of(arguments: Sequence[str]) -> str:
    """Return the language of a command line: of `--lang` anywhere on it, else the environment's."""
    from itertools import pairwise

    from gpuscope.errors import GpuscopeError
    from gpuscope.views.i18n import choose_language

    asked = [b for a, b in pairwise(arguments) if a == "--lang"]
    asked += [a.partition("=")[2] for a in arguments if a.startswith("--lang=")]
    try:
        return choose_language(asked[-1] if asked else None)
    except GpuscopeError:  # told by the command itself
        return "en"
