"""Changes that a user wrote: Python files that call `gpuscope.advice.registry.register`."""

from __future__ import annotations

import runpy
from collections.abc import Iterable
from pathlib import Path

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError

__all__ = ["load_own", "loaded"]

_LOADED: set[str] = set()


def load_own(paths: Iterable[str]) -> None:
    """Run each file once in this process.

    Raises:
        InputFileError: one does not exist, or raised.
    """
    for path in paths:
        full = str(Path(path).resolve())
        if full in _LOADED:
            continue
        if not Path(full).is_file():
            raise InputFileError(
                Text("There is no file {path}.", path=path), "", Text("Give a file that exists.")
            )
        try:
            runpy.run_path(full, run_name="gpuscope_own_changes")
        except Exception as error:
            raise InputFileError(
                Text("{path} cannot be run.", path=path),
                f"{type(error).__name__}: {error}",
                Text("It should only define changes and register them."),
            ) from error
        _LOADED.add(full)


def loaded() -> tuple[str, ...]:
    """Return the files that were run in this process."""
    return tuple(sorted(_LOADED))
