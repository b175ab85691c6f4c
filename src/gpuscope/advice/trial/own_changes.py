"""Changes that a user wrote: Python files that call `gpuscope.advice.registry.register`."""

from __future__ import annotations

import runpy
from collections.abc import Iterable
from pathlib import Path

from gpuscope.errors import InputFileError

__all__ = ["load_own"]

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
            raise InputFileError(f"There is no file {path}.", "", "Give a file that exists.")
        try:
            runpy.run_path(full, run_name="gpuscope_own_changes")
        except Exception as error:
            raise InputFileError(
                f"{path} cannot be run.", f"{type(error).__name__}: {error}",
                "It should only define changes and register them.",
            ) from error  # fmt: skip
        _LOADED.add(full)
