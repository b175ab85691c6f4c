"""Writers by the name of their framework: one small file each, registering itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gpuscope.document.text import Text
from gpuscope.planning.types import Plan
from gpuscope.registry import Registry

Writer = Callable[[Plan], str]

WRITERS = Registry[Writer](Text("framework"), "gpuscope.planning.writers")

_Writer = TypeVar("_Writer", bound=Writer)


def writer(name: str) -> Callable[[_Writer], _Writer]:
    """Register a writer under its framework's name."""

    def register(function: _Writer) -> _Writer:
        WRITERS.add(name, function)
        return function

    return register
