"""C++ kernels by their function: what each does, and what its template arguments are.

One table a library, `functions_*.toml`: `library`, `about` (where it is written) and `home`, a
pattern of the namespaces that are its own; then its functions, the first whose pattern fits counts:

    [[function]]
    match = 'softmax_warp_forward'      # of the whole name, or of its end with "::"; or a list;
                                        # with "<" also of how its first argument begins
    what = "Softmax of short rows, each by one warp in registers."
    arguments = ["inputs", "", { field = "mask", text = "masked: {value}" }]

An argument names a key of `FIELDS`, and where its value by itself does not tell, the words around
it; "" leaves one out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gpuscope.document.text import Text, extracted
from gpuscope.explanation.kernel_names import words
from gpuscope.explanation.kernel_names.symbol import Symbol

_DEFAULT = "functions_pytorch"
"""The library of functions that stand in no library's namespace."""


class Argument(NamedTuple):
    """A key of `FIELDS`, and the words around {value}; "" where the value says it all."""

    field: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel's function.

    Attributes:
        pattern: of its name.
        what: what it does.
        arguments: its template arguments; None for one that tells nothing.
        library: whose it is; "" where only the namespace can tell.
        source: where it is written.
    """

    pattern: re.Pattern[str]
    what: Text
    arguments: tuple[Argument | None, ...]
    library: str
    source: Text

    def fits(self, symbol: Symbol) -> bool:
        """Whether a symbol is this function: by its name, or by the end of its path."""
        if self.pattern.fullmatch(symbol.name):
            return True
        pattern = self.pattern.pattern
        if "<" in pattern and self.pattern.match(f"{symbol.name}<{''.join(symbol.arguments[:1])}"):
            return True
        return "::" in pattern and re.search(rf"(^|::)(?:{pattern})$", symbol.path) is not None


@dataclass(frozen=True, slots=True)
class Library:
    """The functions of one library, and the pattern of its namespaces."""

    name: str
    home: str
    functions: tuple[Function, ...]


def candidates(path: str) -> Iterator[Function]:
    """Yield functions for a path: those of its own library first, then all others."""
    every = libraries()
    home = next((one.name for one in every if one.home and re.search(one.home, path)), _DEFAULT)
    for library in sorted(every, key=lambda library: library.name != home):
        yield from library.functions


@cache
def libraries() -> tuple[Library, ...]:
    """Return all tables of functions."""
    files = sorted(Path(__file__).parent.glob("functions_*.toml"))
    return tuple(_library(file.stem) for file in files)


def _library(name: str) -> Library:
    raw = words.read_table(name)
    library, source = raw.get("library", ""), extracted(raw["about"])
    return Library(
        name,
        raw.get("home", ""),
        tuple(
            Function(
                re.compile(_joined(entry["match"])),
                extracted(entry["what"]),
                tuple(_argument(each) for each in entry.get("arguments", ())),
                library,
                source,
            )
            for entry in raw["function"]
        ),
    )


def _joined(match: str | list[str]) -> str:
    return match if isinstance(match, str) else "|".join(match)


def _argument(entry: str | Mapping[str, Any]) -> Argument | None:
    if isinstance(entry, str):
        return Argument(entry) if entry else None
    return Argument(entry["field"], entry["text"])
