"""Tables of Nsight Compute (`ncu --csv`): the page "details", a row a counter, and "raw", a row a
launch with a row of units above.

Format: NVIDIA, "Nsight Compute CLI", `--csv` and `--page`. Before the header stand what the program
and ncu itself printed ("==PROF== ..."). Numbers have commas between thousands.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuscope.document.printable import harmless
from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.explanation.nsight_compute.types import Counted, Dim, Metric, counted, wanted
from gpuscope.outside import limits
from gpuscope.outside.plain import file_bytes

_HEADER = re.compile(r'^\ufeff?"?ID"?,"?Process ID"?,', re.MULTILINE)
_NUMBER = re.compile(r"^-?(?:\d{1,3}(?:,\d{3}){1,5}|\d{1,18})(?:\.\d{1,18})?(?:e[+-]?\d{1,2})?$")
_DIM = re.compile(r"^\(?(\d{1,10}), ?(\d{1,5}), ?(\d{1,5})\)?$")


def read_table(path: Path) -> list[Counted]:
    """Return the launches of a table, in their order.

    Raises:
        MisfitError: it is no such table.
        OSError: it cannot be read.
        InputFileError: it is too large.
    """
    raw = file_bytes(path)
    text = raw.decode("utf-8", "replace")
    begin = _HEADER.search(text)
    if begin is None:
        raise MisfitError("", Text("The header that ncu --csv prints is not in it"))
    rows = csv.reader(text[begin.start() :].lstrip("\ufeff").splitlines())
    try:
        header = next(rows)
        by_row = all(f"Metric {word}" in header for word in _OF_A_METRIC)
        found = _long(header, rows) if by_row else _wide(header, rows)
        launches, most = [], limits.events(len(raw))
        for launch in found:
            launches.append(launch)
            if len(launches) > most:
                raise limits.holds_too_many(path, Text("launches"), most)
    except csv.Error as error:
        raise MisfitError("", Text("It is a damaged table ({reason})", reason=error)) from error
    return launches


def _long(header: Sequence[str], rows: Iterator[list[str]]) -> Iterator[Counted]:
    """A row a counter: those of one launch follow each other."""
    place = {name: at for at, name in enumerate(header)}
    own, first, metrics = "", None, []
    for row in rows:
        if len(row) <= place["Metric Value"]:
            continue  # what the program printed meanwhile; rows of counters lack a rule's cells
        key = f"{row[0]},{row[1]}"
        if key != own and first is not None:
            yield _launch(place, first, metrics)
            metrics = []
        own, first = key, row
        metrics += _metric(*(_cell(place, row, f"Metric {word}") for word in _OF_A_METRIC))
    if first is not None:
        yield _launch(place, first, metrics)


_OF_A_METRIC = ("Name", "Unit", "Value")


def _wide(header: Sequence[str], rows: Iterator[list[str]]) -> Iterator[Counted]:
    """A row a launch; the first row has the units."""
    place = {name: at for at, name in enumerate(header)}
    units = next(rows, [])
    columns = [(at, name) for name, at in place.items() if wanted(name)]
    for row in rows:
        if len(row) == len(header) == len(units):
            metrics = [m for at, name in columns for m in _metric(name, units[at], row[at])]
            yield _launch(place, row, metrics)


def _launch(place: dict[str, int], row: Sequence[str], metrics: Sequence[Metric]) -> Counted:
    symbol = harmless(_cell(place, row, "Kernel Name"))
    grid, block = (_dim(_cell(place, row, f"{of} Size")) for of in ("Grid", "Block"))
    return counted(symbol, grid, block, metrics)


def _cell(place: dict[str, int], row: Sequence[str], name: str) -> str:
    return row[place[name]].strip() if name in place else ""


def _metric(name: str, unit: str, value: str) -> list[Metric]:
    """The counter, if it is one that is read and has a number."""
    if not wanted(name) or not _NUMBER.match(value):
        return []
    return [Metric(name, unit, float(value.replace(",", "")))]


def _dim(text: str) -> Dim | None:
    found = _DIM.match(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None
