"""The columns of one chunk by themselves, and how a file's columns take them in.

A chunk's own table numbers names, places and shapes in order of appearance. Taken in chunk by
chunk, in the file's order, they get the numbers that reading one after another would give them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuscope.timeline.kineto.records import Parsed
from gpuscope.timeline.kineto.table import Columns, Numbers, Table
from gpuscope.timeline.types import Ints

_TABLES = ("names", "categories", "places", "specs", "collectives", "own_calls")
_COLUMNS = ("events", "device", "calls", "operators", "own", "memory")

_NUMBERED = {
    "category": "categories",
    "name": "names",
    "pid": "places",
    "tid": "places",
    "spec": "specs",
    "collective": "collectives",
    "call": "own_calls",
}
"""Columns that hold numbers of a table's entries, and which table's."""


@dataclass(frozen=True, slots=True)
class Part:
    """What `Table` holds of one chunk.

    Attributes:
        values: the distinct values of each of its tables of numbers, in order of appearance.
        columns: its columns, by group and name.
        metadata, counters, counts, skipped, negative, rows: as in `Table`.
    """

    values: dict[str, list[Any]]
    columns: dict[str, dict[str, Any]]
    metadata: list[Any]
    counters: list[Any]
    counts: dict[str, int]
    skipped: int
    negative: int
    rows: int


def part_of(parsed: Parsed, *, is_own: bool) -> Part:
    """The columns of one chunk.

    Args:
        parsed: its events.
        is_own: the file was written by gpuscope.
    """
    table = Table()
    table.is_own = is_own
    table.add(parsed)
    return Part(
        values={name: list(getattr(table, name)) for name in _TABLES},
        columns={name: _parts(getattr(table, name)) for name in _COLUMNS},
        metadata=table.metadata,
        counters=table.counters,
        counts=dict(table.counts),
        skipped=table.skipped,
        negative=table.negative,
        rows=table.rows,
    )


def _parts(columns: Columns) -> dict[str, Any]:
    """The columns of a chunk's own table, as narrow as they are kept."""
    return {
        name: parts[0] if len(parts) == 1 else np.concatenate(parts)
        for name, parts in columns.parts.items()
    }


def absorb(table: Table, part: Part) -> None:
    """Take the next chunk in; the same as `Table.add` of its events."""
    maps = {name: _numbers(getattr(table, name), part.values[name]) for name in _TABLES}
    for group, columns in part.columns.items():
        if columns:
            moved = {
                name: _moved(name, column, maps, table.rows) for name, column in columns.items()
            }
            getattr(table, group).add(**moved)
    table.metadata += part.metadata
    table.counters += part.counters
    for word, count in part.counts.items():
        table.counts[word] += count
    table.skipped += part.skipped
    table.negative += part.negative
    table.rows += part.rows


def _numbers(numbers: Numbers[Any], values: Iterable[Any]) -> Ints:
    """Number of each value in the file's table, and -1 at the end: `[-1]` stays -1."""
    return np.array([*(numbers[value] for value in values), -1], np.int64)


def _moved(name: str, column: Any, maps: dict[str, Ints], rows: int) -> Any:
    """A column with the file's numbers; the allocator's times and others stay as they are."""
    if name == "row":
        return column.astype(np.int64) + rows
    return maps[_NUMBERED[name]][column] if name in _NUMBERED else column


def packed(part: Part) -> bytes:
    """A part as bytes, for another process."""
    return pickle.dumps(part, protocol=5)


def unpacked(data: bytes | memoryview) -> Part:
    """The part that `packed` wrote; nothing of it refers to `data`."""
    found: Part = pickle.loads(data)
    return found
