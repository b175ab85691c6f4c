"""An Nsight Systems export as columns of integers, whatever version wrote it.

Tables are made only when there is something in them, columns came and went over the versions, and
absent values are NULL or a default. So every read names the columns that it would like and gets -1
for those that are not there. The schema is documented in NVIDIA's "Nsight Systems user guide",
section "SQLite Schema Reference" (docs.nvidia.com/nsight-systems/UserGuide).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import numpy as np

from gpuscope.errors import InputFileError
from gpuscope.timeline.types import Ints

_CHUNK = 1 << 16
_KNOWN = (
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "NVTX_EVENTS", "OSRT_API",
    "StringIds", "TARGET_INFO_GPU", "META_DATA_EXPORT",
)  # fmt: skip

Columns = dict[str, Ints]


class Database:
    """A read-only connection that gives columns; a context manager.

    Args:
        path: the SQLite file.

    Raises:
        InputFileError: missing, unreadable, not SQLite, damaged, or not an nsys export.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise InputFileError(f"There is no file {path}.", "", "Check the path.")
        try:
            # Never writes, and does not need to: no journal is made beside the user's file.
            uri = f"file:{quote(str(self.path.resolve()))}?mode=ro&immutable=1"
            self._connection = sqlite3.connect(uri, uri=True)
            self._tables = self._read_tables()
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        if not any(table in self._tables for table in _KNOWN):
            self._connection.close()
            raise InputFileError(
                f"{path} is not an export of Nsight Systems.",
                "It is a SQLite database without its tables.",
                "Type: nsys export --type sqlite REPORT.nsys-rep",
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
        query = f'SELECT {wanted} FROM "{table}"'
        if where and where in known:
            query += f' WHERE "{where}" IS NOT NULL'
        if "start" in known:
            query += ' ORDER BY "start"'
        try:
            cursor = self._connection.execute(query)
            chunks = []
            while rows := cursor.fetchmany(_CHUNK):
                chunks.append(np.array(rows, np.int64))
        except (sqlite3.Error, OverflowError) as error:
            raise self._damaged(error) from error
        if not chunks:
            return {name: np.zeros(0, np.int64) for name in names}
        whole = np.concatenate(chunks)
        return {name: np.ascontiguousarray(whole[:, i]) for i, name in enumerate(names)}

    def rows(self, table: str, names: Sequence[str]) -> list[tuple[object, ...]]:
        """Return all rows of a small table as Python values; None for missing columns."""
        if table not in self._tables:
            return []
        known = self._tables[table]
        wanted = ", ".join(f'"{name}"' if name in known else "NULL" for name in names)
        try:
            return list(self._connection.execute(f'SELECT {wanted} FROM "{table}"'))
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def strings(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the texts of `StringIds` with these ids."""
        if "StringIds" not in self._tables:
            return {}
        wanted = sorted({int(i) for i in ids if i >= 0})
        found: dict[int, str] = {}
        try:
            for at in range(0, len(wanted), 500):
                some = wanted[at : at + 500]
                marks = ",".join("?" * len(some))
                query = f"SELECT id, value FROM StringIds WHERE id IN ({marks})"
                found.update(
                    {int(i): _text(value) for i, value in self._connection.execute(query, some)}
                )
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        return found

    def texts(self, table: str, column: str, *, where: str) -> list[str]:
        """Return a text column in the order of `columns`; "" where it is absent or NULL."""
        known = self._tables.get(table, set())
        if column not in known:
            return []
        query = f'SELECT "{column}" FROM "{table}"'
        if where in known:
            query += f' WHERE "{where}" IS NOT NULL'
        if "start" in known:
            query += ' ORDER BY "start"'
        try:
            return [_text(value) for (value,) in self._connection.execute(query)]
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def _read_tables(self) -> dict[str, set[str]]:
        names = [
            str(name)
            for (name,) in self._connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            )
        ]
        quoted = ((name, name.replace('"', '""')) for name in names)
        return {
            name: {str(row[1]) for row in self._connection.execute(f'PRAGMA table_info("{safe}")')}
            for name, safe in quoted
        }

    def _damaged(self, error: Exception) -> InputFileError:
        return InputFileError(
            f"{self.path} cannot be read as SQLite.", f"{str(error).capitalize()}.",
            "Export it again: nsys export --type sqlite REPORT.nsys-rep",
        )  # fmt: skip


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)
