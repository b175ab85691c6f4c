"""Ways to share a model within a replica, by name: one small file each, registering itself.

A choice carries the values that are not 1 (`ServingChoice.splits`). A way says which values are
worth trying, and how each server's command line spells it, to write it and to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuscope.document.text import Text
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.registry import Registry

if TYPE_CHECKING:
    from gpuscope.planning.serving.types import ServingChoice

__all__ = ["SPLITS", "Options", "Read", "Split", "Write", "powers"]

Options = Mapping[str, str]
"""Of a command line, by the server's names without dashes; "" where an option has no value."""

Write = Callable[["ServingChoice", int], Options]
"""What a value adds to a line, or has in place of what stands there."""


@dataclass(frozen=True, slots=True)
class Read:
    """How a line says it.

    Attributes:
        counts: options whose value is a number; flags: options without a value.
        made: the choice, from the numbers of those that stand in the line (1 of a flag) and the
            choice that all but this way say.
    """

    counts: tuple[str, ...]
    flags: tuple[str, ...]
    made: Callable[[Mapping[str, int], ServingChoice, TransformerSize], ServingChoice]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One way.

    Attributes:
        name: in a choice's words, and of the argument of `gpuscope.serving.simulate.deploy`.
        multiplies: whether a replica takes so many times its `tp` devices.
        values: other than 1 that are tried, of a model on so many devices of a replica's `tp`,
            where so many devices are to be used.
        write, read: by server; a server that has none cannot start it.
    """

    name: str
    multiplies: bool
    values: Callable[[TransformerSize, int, int], Iterable[int]]
    write: Mapping[str, Write]
    read: Mapping[str, Read]


SPLITS = Registry[Split](Text("split"), "gpuscope.planning.serving.splits")


def powers(most: int) -> tuple[int, ...]:
    """2, 4, 8, ... up to `most`."""
    return tuple(2**n for n in range(1, max(1, most).bit_length()))
