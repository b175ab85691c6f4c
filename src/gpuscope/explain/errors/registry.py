"""Readers of errors; every one that knows something of a text is heard."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.types import Diagnosis

Reader = Callable[[Log], Diagnosis | None]

_READERS: dict[str, Reader] = {}
_loaded = False


def error_reader(function: Reader) -> Reader:
    """Register a reader of one kind of error."""
    _READERS[f"{function.__module__}.{function.__name__}"] = function
    return function


def diagnose(log: Log) -> list[Diagnosis]:
    """Return what is wrong, closest to the root first; empty where nothing is known.

    Of several errors in a log one is often the cause and the others follow: memory that ran out on
    one rank ends as a timeout on all others. `Diagnosis.rank` orders kinds so; among equals the
    one that was printed first counts.
    """
    _load()
    found = [diagnosis for reader in _READERS.values() if (diagnosis := reader(log)) is not None]
    return sorted(found, key=lambda diagnosis: (diagnosis.rank, diagnosis.line))


def _load() -> None:
    global _loaded
    if not _loaded:
        import gpuscope.explain.errors as package

        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
        _loaded = True
