"""Readers of kernel names by library; the first that knows a symbol has it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from gpuscope.explain.kernel_names.types import KernelName

Reader = Callable[[str], KernelName | None]

_READERS: dict[str, tuple[int, Reader, tuple[str, ...]]] = {}
_loaded = False

_LAST = 100
"""Rank of readers that take what no library's own reader knows."""


def reader(*examples: str, rank: int = 0) -> Callable[[Reader], Reader]:
    """Register a reader.

    Args:
        examples: real symbols that it reads; near ones are suggested for an unknown name.
        rank: readers of lower rank are asked first.
    """

    def register(function: Reader) -> Reader:
        _READERS[f"{function.__module__}.{function.__name__}"] = (rank, function, examples)
        return function

    return register


def read_kernel_name(symbol: str) -> KernelName | None:
    """Return what a symbol says; None where nothing in it is known.

    Args:
        symbol: a device symbol as a trace has it: demangled, mangled, or cut off at its end.
    """
    for _, function, _ in _ordered():
        found = function(symbol)
        if found is not None:
            return found
    return None


def known_examples() -> tuple[str, ...]:
    """Return one or more real symbols of each reader."""
    return tuple(example for _, _, examples in _ordered() for example in examples)


def _ordered() -> list[tuple[int, Reader, tuple[str, ...]]]:
    global _loaded
    if not _loaded:
        import gpuscope.explain.kernel_names as package

        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
        _loaded = True
    return [_READERS[key] for key in sorted(_READERS, key=lambda k: (_READERS[k][0], k))]
