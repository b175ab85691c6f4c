"""Readers of kernel names by library; the first that knows a symbol has it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from gpuscope.document.text import Text
from gpuscope.explanation.kernel_names.types import KernelName
from gpuscope.registry import Registry

Reader = Callable[[str], KernelName | None]


class Known(NamedTuple):
    """A reader with real symbols that it reads; readers of lower rank are asked first."""

    rank: int
    name: str
    read: Reader
    examples: tuple[str, ...]


READERS = Registry[Known](Text("kernel name reader"), "gpuscope.explanation.kernel_names")


def reader(*examples: str, rank: int = 0) -> Callable[[Reader], Reader]:
    """Register a reader.

    Args:
        examples: real symbols that it reads; near ones are suggested for an unknown name.
        rank: readers of lower rank are asked first.
    """

    def register(function: Reader) -> Reader:
        name = f"{function.__module__}.{function.__name__}"
        READERS.add(name, Known(rank, name, function, examples))
        return function

    return register


_NO_NUMBER = re.compile(r"\d{100}")
"""No library writes such a number, and Python reads none of thousands of digits."""


def read_kernel_name(symbol: str) -> KernelName | None:
    """Return what a symbol says; None where nothing in it is known.

    Args:
        symbol: a device symbol as a trace has it: demangled, mangled, or cut off at its end.
    """
    if _NO_NUMBER.search(symbol):
        return None
    for known in sorted(READERS):
        found = known.read(symbol)
        if found is not None:
            return found
    return None


def known_examples() -> tuple[str, ...]:
    """Return one or more real symbols of each reader."""
    return tuple(example for known in sorted(READERS) for example in known.examples)
