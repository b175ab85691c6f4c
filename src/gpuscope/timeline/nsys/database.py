"""An Nsight Systems export, or rocprofv3's database, as columns of integers, whoever wrote it.

Tables are made only when there is something in them, columns came and went over the versions, and
absent values are NULL or a default. So every read names the columns that it would like and gets -1
for those that are not there. The schema is documented in NVIDIA's "Nsight Systems user guide",
section "SQLite Schema Reference" (docs.nvidia.com/nsight-systems/UserGuide); rocprofv3's (rocpd) in
AMD's rocprofiler-sdk, `rocpd_tables.sql`: there each process has tables of its own, whose names end
in its identifier.

A database is a program, too: views and generated columns compute. Only tables are read, functions
of the schema's own are off, and rows, lengths and time have limits (`gpuscope.outside.limits`).
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import numpy as np

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.outside import limits
from gpuscope.timeline.types import Ints

_CHUNK = 1 << 16
_LONGEST_TEXT = 1 << 20
_STEPS = 100_000
"""Instructions of SQLite's machine between two looks at the clock: a few milliseconds."""

_ROOM = 2**62 - 1
"""Numbers beyond it, either way, count as missing: sums of two must fit in a column."""

LONGEST_NS = 10**18
"""Longer events (31 years) are none."""
_KNOWN = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "NVTX_EVENTS",
    "OSRT_API",
    "StringIds",
    "TARGET_INFO_GPU",
    "META_DATA_EXPORT",
)

_READ = frozenset(
    (
        *_KNOWN,
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        "DIAGNOSTIC_EVENT",
        "TARGET_INFO_SESSION_START_TIME",
        "TARGET_INFO_SYSTEM_ENV",
        "ThreadNames",
    )
)
"""Tables that anything is read of."""

_ROCPD = re.compile(
    r"rocpd_(?:string|event|region|kernel_dispatch|memory_copy"
    r"|info_(?:process|thread|agent|kernel_symbol|node))(_\w{1,64})?"
)
_DISPATCHES = "rocpd_kernel_dispatch"

Columns = dict[str, Ints]


class Database:
    """A read-only connection that gives columns; a context manager.

    Args:
        path: the SQLite file.

    Raises:
        InputFileError: missing, unreadable, not SQLite, damaged, or neither of the two.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise InputFileError(
                Text("There is no file {path}.", path=path), "", Text("Check the path.")
            )
        size = self.path.stat().st_size
        self._limit_s, self._most_rows = limits.seconds(size), limits.events(size)
        self._begin_s = time.process_time()
        self._late = False
        try:
            # Never writes, and does not need to: no journal is made beside the user's file.
            uri = f"file:{quote(os.fsencode(self.path.resolve()))}?mode=ro&immutable=1"
            self._connection = sqlite3.connect(uri, uri=True)
            self._connection.text_factory = _text
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_TEXT)
            self._connection.set_progress_handler(self._is_late, _STEPS)
            self._connection.execute("PRAGMA trusted_schema=OFF")
            self._tables = self._read_tables()
        except (sqlite3.Error, ValueError) as error:  # its own words may not be UTF-8 either
            raise self._damaged(error) from error
        if not self.parts and not any(table in self._tables for table in _KNOWN):
            self._connection.close()
            raise InputFileError(
                Text("{path} is not an export of Nsight Systems.", path=path),
                Text("It is a SQLite database without its tables."),
                Text("Type: nsys export --type sqlite REPORT.nsys-rep"),
            )

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    @property
    def parts(self) -> list[str]:
        """Ends of the names of rocprofv3's tables, one a process; none in an nsys export."""
        return sorted(
            table.removeprefix(_DISPATCHES)
            for table in self._tables
            if table.startswith(_DISPATCHES)
        )

    def has(self, table: str) -> bool:
        """Return whether a table is there."""
        return table in self._tables

    def columns(self, table: str, names: Sequence[str], *, where: str = "") -> Columns:
        """Return integer columns of a table, sorted by `start` where it has one.

        Args:
            table: its name; a missing table gives empty columns.
            names: columns; a missing one, like a missing value, is -1.
            where: a column that must not be NULL, or "".
        """
        if table not in self._tables:
            return {name: np.zeros(0, np.int64) for name in names}
        known = self._tables[table]
        wanted = ", ".join(
            f'COALESCE(CAST("{name}" AS INTEGER), -1)' if name in known else "-1" for name in names
        )
        query = f'SELECT {wanted} FROM "{table}"{_usable(known, where)}'
        chunks = [np.array(rows, np.int64) for rows in self._chunks(query)]
        if not chunks:
            return {name: np.zeros(0, np.int64) for name in names}
        whole = np.concatenate(chunks)
        return {name: _with_room(name, whole[:, i]) for i, name in enumerate(names)}

    def rows(self, table: str, names: Sequence[str]) -> list[tuple[object, ...]]:
        """Return all rows of a small table as Python values; None for missing columns."""
        if table not in self._tables:
            return []
        known = self._tables[table]
        wanted = ", ".join(f'"{name}"' if name in known else "NULL" for name in names)
        query = f'SELECT {wanted} FROM "{table}"'
        return [row for rows in self._chunks(query) for row in rows]

    def strings(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the texts of `StringIds` with these ids."""
        if "StringIds" not in self._tables:
            return {}
        wanted = sorted({int(i) for i in ids if i >= 0})
        found: dict[int, str] = {}
        for at in range(0, len(wanted), 500):
            some = wanted[at : at + 500]
            marks = ",".join("?" * len(some))
            query = f"SELECT id, value FROM StringIds WHERE id IN ({marks})"
            for rows in self._chunks(query, some):
                found.update({int(i): _plain(value) for i, value in rows})
        return found

    def texts(self, table: str, column: str, *, where: str) -> list[str]:
        """Return a text column in the order of `columns`; "" where it is absent or NULL."""
        known = self._tables.get(table, set())
        if column not in known:
            return []
        query = f'SELECT "{column}" FROM "{table}"{_usable(known, where)}'
        return [_plain(value) for rows in self._chunks(query) for (value,) in rows]

    def _read_tables(self) -> dict[str, set[str]]:
        """Columns by table; names are compared with those that are known, and never printed."""
        names = [
            str(name)
            for (name,) in self._connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            )
        ]
        return {
            name: {str(row[1]) for row in self._connection.execute(f'PRAGMA table_info("{name}")')}
            for name in names
            if name in _READ or _ROCPD.fullmatch(name)
        }

    def _chunks(self, query: str, values: Sequence[object] = ()) -> Iterator[list[Any]]:
        """The rows that a query gives, some at a time.

        Raises:
            InputFileError: it fails, takes too long, or gives too many.
        """
        left = self._most_rows
        try:
            cursor = self._connection.execute(query, values)
            while rows := cursor.fetchmany(_CHUNK):
                left -= len(rows)
                if left < 0:
                    raise limits.holds_too_many(self.path, Text("rows"), self._most_rows)
                yield rows
        except (sqlite3.Error, OverflowError, ValueError) as error:
            if self._late:
                raise limits.takes_too_long(self.path, self._limit_s) from error
            raise self._damaged(error) from error

    def _is_late(self) -> bool:
        self._late = time.process_time() - self._begin_s > self._limit_s
        return self._late

    def _damaged(self, error: Exception) -> InputFileError:
        return InputFileError(
            Text("{path} cannot be read as SQLite.", path=self.path),
            f"{str(error).capitalize()}.",
            Text("Export it again (nsys export --type sqlite REPORT.nsys-rep), or record anew."),
        )


def _usable(known: set[str], where: str) -> str:
    """The end of a query for events: those whose time is one, in its order."""
    wanted = [f'"{where}" IS NOT NULL'] if where and where in known else []
    if "start" not in known:
        return f" WHERE {wanted[0]}" if wanted else ""
    wanted.append(f'CAST("start" AS INTEGER) BETWEEN 0 AND {_ROOM}')
    return f' WHERE {" AND ".join(wanted)} ORDER BY CAST("start" AS INTEGER)'


def _with_room(name: str, column: Ints) -> Ints:
    """A column whose numbers can be added; those of processes and threads are fields of bits."""
    if name.startswith("global"):
        return np.ascontiguousarray(column)
    return np.where((column >= -_ROOM) & (column <= _ROOM), column, -1)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        return _text(value)
    return "" if value is None else str(value)
