"""Run a program to its end or its time limit, with all that it started, and hear it meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

Tell = Callable[[str], None]

_DRAIN_S = 2.0
"""How long to wait for the last of the output, which a process left behind may keep open."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended; `code` is None where it ran past its time or was stopped."""

    code: int | None
    out: str
    err: str


class Processes:
    """Programs that run now; `stop` ends them all."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(
        self,
        words: Sequence[str],
        timeout_s: float,
        tell: Tell | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run a program and return what it wrote.

        Args:
            words: the program and its arguments.
            timeout_s: after which it is ended, with what it started.
            tell: called with each line of its standard error as it comes.
            environment: its variables; None for ours.
        """
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
                env=environment,
            )
        except OSError as error:
            return Ended(127, "", str(error))
        self._running.add(process)
        out, err = _Reader(process.stdout), _Reader(process.stderr, tell)
        code: int | None = None
        try:
            code = process.wait(0 if self._stopped else timeout_s)
        except subprocess.TimeoutExpired:
            pass
        finally:  # also when the user interrupts
            if code is None:
                _kill(process)
            self._running.discard(process)
        return Ended(None if self._stopped else code, out.text(), err.text())

    def stop(self) -> None:
        """End what still runs, and what would begin."""
        self._stopped = True
        for process in tuple(self._running):
            _kill(process)


class _Reader:
    """Collects a stream in a thread of its own, so that a full pipe stops nobody."""

    def __init__(self, stream: IO[str] | None, tell: Tell | None = None) -> None:
        self._lines: list[str] = []
        self._stream = stream
        self._tell = tell
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self) -> str:
        """All that came."""
        self._thread.join(_DRAIN_S)
        return "".join(self._lines)

    def _read(self) -> None:
        if self._stream is None:
            return
        with self._stream, suppress(ValueError, OSError):
            for line in self._stream:
                self._lines.append(line)
                if self._tell is not None:
                    self._tell(line.rstrip())


def _kill(process: subprocess.Popen[str]) -> None:
    """End a process and all that it started: they are one session."""
    with suppress(ProcessLookupError, PermissionError, OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_DRAIN_S)
