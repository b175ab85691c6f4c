"""Readers of existing plans by the name of their framework: the writers' other half."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.outside.toml_file import no_value, parse_toml
from gpuscope.planning.dimensions.registry import DIMENSIONS, Choices, tries_of
from gpuscope.registry import Registry

__all__ = ["AGAIN", "READERS", "Existing", "Reader", "count", "found", "tables_of"]

AGAIN = Text("Name a plan's file, such as: gpuscope plan llama-3.1-8b --check plan.toml")


@dataclass(frozen=True, slots=True)
class Existing:
    """What a file says.

    Attributes:
        layout: arguments of `gpuscope.program.models.parallel.options.ParallelOptions`.
        global_batch, seq: of the training; None where the file does not say.
        beside: values of `gpuscope.planning.dimensions`.
    """

    layout: Mapping[str, Any]
    global_batch: int | None = None
    seq: int | None = None
    beside: Mapping[str, str] = field(default_factory=dict)

    @property
    def more(self) -> Choices:
        """What is not usual beside the layout.

        Raises:
            UnknownNameError: no such dimension, or value of one.
            InvalidValueError: a cut of stages that is none.
        """
        for name, value in self.beside.items():
            if name != "stages":
                tries_of(name, (value,))
            elif re.fullmatch(r"\d{1,4}(x\d{1,4})?(\+\d{1,4}(x\d{1,4})?)*", value) is None:
                raise no_value(name, value, '"17+15"')
        usual = {name: DIMENSIONS.get(name).values[0] for name in self.beside}
        return tuple(sorted((n, v) for n, v in self.beside.items() if v != usual[n]))


@dataclass(frozen=True, slots=True)
class Reader:
    """One kind of file.

    Attributes:
        knows: whether a text is of this kind.
        read: what it says, on so many devices.
    """

    knows: Callable[[str], bool]
    read: Callable[[str, int, Path], Existing]


READERS = Registry[Reader](Text("framework"), "gpuscope.planning.readers")


def count(name: str, value: object) -> int:
    """A whole number from 1 on.

    Raises:
        InvalidValueError: something else.
    """
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if type(value) is not int or value < 1:
        raise no_value(name, value, "1")
    return value


def tables_of(text: str, path: Path) -> dict[str, Any]:
    """What TOML says.

    Raises:
        InputFileError: it is none.
    """
    return parse_toml(text, path, AGAIN)


def found(text: str) -> Reader:
    """The reader that knows a text; our own names are taken where no other does."""
    others = [READERS.get(name) for name in READERS.names() if name != "plan"]
    return next((each for each in others if each.knows(text)), READERS.get("plan"))
