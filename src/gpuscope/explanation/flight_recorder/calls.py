"""What the flight recorder noted: one call of a collective, and the calls of one rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

State = Literal["scheduled", "called", "started", "completed", "unknown"]
"""How far a call came. Without TORCH_NCCL_ENABLE_TIMING the beginning is not noted: "called" is not
ended, and may have begun. Gloo notes only that it was made: "unknown"."""

OPEN: frozenset[State] = frozenset({"scheduled", "called", "started"})
"""States of what did not end."""


class Frame(NamedTuple):
    """A line of source on the way to a call."""

    file: str
    line: int
    function: str


class Key(NamedTuple):
    """What names a call on every rank of its process group."""

    group: str
    is_p2p: bool
    sequence: int


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a collective, or of a send or receive.

    Attributes:
        operation: "all_reduce".
        input_sizes, output_sizes: shapes of the tensors; () where none is noted.
        dtypes: of the inputs, as torch names them ("Float").
        state: how far it came.
        sites: lines outside torch that led to it, the innermost first; () if not recorded.
        timeout_s: its limit; None if not noted.
    """

    operation: str
    input_sizes: tuple[tuple[int, ...], ...]
    output_sizes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    state: State
    sites: tuple[Frame, ...]
    timeout_s: float | None

    @property
    def elements(self) -> int:
        """Number of elements of all inputs."""
        total = 0
        for shape in self.input_sizes:
            count = 1
            for length in shape:
                count *= length
            total += count
        return total


@dataclass(frozen=True, slots=True)
class Group:
    """A process group: its description and its ranks (None if the dump does not list them)."""

    name: str
    description: str
    ranks: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class RankDump:
    """The dump of one rank.

    Attributes:
        rank: from the file's name.
        version: of the format, e.g. (2, 10).
        calls: what it noted, by key, oldest first.
        groups: the process groups that it knows, by name.
        first_ns, last_ns: when the oldest and newest call were made (epoch); None without calls.
    """

    rank: int
    version: tuple[int, int]
    calls: Mapping[Key, Call]
    groups: Mapping[str, Group]
    first_ns: int | None
    last_ns: int | None


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that could not be read, and why."""

    rank: int
    reason: str


@dataclass(frozen=True, slots=True)
class Dumps:
    """The dumps of a run, by rank."""

    ranks: Mapping[int, RankDump]
    unread: tuple[Unread, ...] = ()
