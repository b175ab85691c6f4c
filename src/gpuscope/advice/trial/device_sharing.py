"""Sharing a device: several runs prepare at once, and while one of them is timed all others wait.

Whoever times holds a file's lock alone; whoever lets the device work otherwise (a step of a
warm-up, a step whose results are compared) holds it together with others, for that step only. A
second file is a turnstile: one that waits to time stops new ones from coming in, so that it waits
for steps under way and no longer. Locks go with their process (`flock`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, UnsupportedError

__all__ = ["Sharing"]


class Sharing:
    """One run's part in it.

    Args:
        path: of a file that all runs on a device name; "" or None: nobody waits.

    Raises:
        UnsupportedError: this system has no such locks.
        InputFileError: the file cannot be opened.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = str(path) if path else ""
        if not self.path:
            return
        if sys.platform == "win32":
            raise UnsupportedError(
                Text("This system has no such file locks."), "", Text("Leave out --share.")
            )
        for each in self.files:
            self._opened(each).close()

    @property
    def files(self) -> tuple[str, ...]:
        """The files whose locks say who may use the device."""
        return (f"{self.path}.timing", f"{self.path}.next") if self.path else ()

    def _opened(self, path: str) -> IO[str]:
        try:
            return Path(path).open("a")
        except OSError as error:
            raise InputFileError(
                Text("{path} cannot be opened.", path=path),
                str(error),
                Text("Name a file in a folder that you can write."),
            ) from error

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Have the device alone."""
        if not self.path:
            yield
            return
        with self._held(1, alone=True), self._held(0, alone=True):
            yield

    @contextmanager
    def using(self) -> Iterator[None]:
        """Use the device while nobody times."""
        if not self.path:
            yield
            return
        with self._held(1, alone=False):
            held = self._held(0, alone=False)
            held.__enter__()
        try:
            yield
        finally:
            held.__exit__(None, None, None)

    @contextmanager
    def _held(self, which: int, *, alone: bool) -> Iterator[None]:
        import fcntl

        with self._opened(self.files[which]) as file:
            fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            try:
                yield
            finally:
                # Also where a process that was forked meanwhile holds the same open file.
                fcntl.flock(file, fcntl.LOCK_UN)
