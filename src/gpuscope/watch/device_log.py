"""Logs that `nvidia-smi` wrote, told as samples: a line a device, a table of what was asked for.

Format: NVIDIA, `nvidia-smi --help-query-gpu` (`--query-gpu=timestamp,index,... --format=csv -l 1`):
a header with names and units, then at each moment a line for each device. What was not available
stands in brackets ("[N/A]").
"""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from gpuscope.document.printable import harmless
from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.measurement.sensors.nvidia import REASONS
from gpuscope.measurement.sensors.types import Reading, SensorInfo
from gpuscope.outside import limits
from gpuscope.watch.types import Activity, DeviceSample, Sample

_IDENTITIES = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")
_COLUMN = re.compile(r"^([a-z0-9_.]+)(?:\s*\[(.+)\])?$")
_REASON = re.compile(r"^clocks_(?:throttle|event)_reasons\.(\w+)$")
_NUMBER = re.compile(r"^-?\d{1,18}(?:\.\d{1,18})?(?![\d.])")
WHOLE = frozenset({"memory_used_bytes", "memory_total_bytes", "pcie_generation", "pcie_width"})
"""Figures that are counts."""

_LONGEST_NUMBER = 4


@cache
def log_names() -> Mapping[str, Mapping[str, Any]]:
    """What the columns of logs mean: tables by the tool that writes them."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def is_device_log(line: str) -> bool:
    """Return whether a file's first line is the header of such a log."""
    names = {name for name, _ in _columns(line)}
    return "timestamp" in names and not names.isdisjoint(log_names()["figures"])


class OpenSample:
    """Devices of one moment, as the lines of a log name them one after the other."""

    def __init__(self, host: str) -> None:
        """Begin with none, on a host of this name."""
        self._host = harmless(host)
        self._open: dict[int, tuple[float, DeviceSample]] = {}

    def holds(self, index: int) -> bool:
        """Return whether the device has been named: if it comes again, the moment is over."""
        return index in self._open

    def put(self, index: int, at_s: float, device: DeviceSample) -> None:
        """Take a device."""
        self._open[index] = (at_s, device)

    def last(self) -> Sample | None:
        """Return the sample of the lines since the one before; None where there are none."""
        if not self._open:
            return None
        found = [self._open[index] for index in sorted(self._open)]
        self._open = {}
        return Sample(min(at for at, _ in found), self._host, tuple(each for _, each in found))


class DeviceLog(OpenSample):
    """Turns the lines of one log into samples; a sample is whole once a device comes again."""

    def __init__(self, header: str, host: str) -> None:
        """Begin.

        Args:
            header: the first line (see `is_device_log`).
            host: what to call the host, which such a log does not name.
        """
        super().__init__(host)
        self._columns = _columns(header)
        self._header = header.strip()
        names = {name for name, _ in self._columns}
        self._identity = next((name for name in _IDENTITIES if name in names), None)
        self._indices: dict[str, int] = {}
        self._notes: tuple[str, ...] = (
            Text("A log of nvidia-smi: its times are read as UTC, its zone is not in it."),
        )
        if self._identity is None:
            self._notes += (
                Text("The log does not say which device a line is of: all are taken for one."),
            )

    def add(self, line: str) -> Sample | None:
        """Take a line; return the sample that it ends, None where it ends none.

        Raises:
            MisfitError: it is not a line of this log.
        """
        if line.strip() == self._header:
            return None  # started anew, and appended
        cells = _cells(line)
        if len(cells) != len(self._columns):
            raise MisfitError("", Text("it has another number of columns than the first line"))
        said: dict[str, str] = {}
        for (name, _), cell in zip(self._columns, cells, strict=True):
            said.setdefault(name, cell)
        at_s = _unix_s(said["timestamp"])
        index = self._index(said.get(self._identity or "", ""))
        ended = self.last() if self.holds(index) else None
        info = SensorInfo(
            "nvidia",
            index,
            harmless(said.get("name") or said.get("gpu_name") or f"GPU {index}"),
            harmless(said.get("uuid") or said.get("gpu_uuid") or ""),
            harmless(said.get("driver_version", "")),
            notes=self._notes,
        )
        reading = Reading(at_s, throttle_reasons=_reasons(said), **self._figures(cells))
        self.put(index, at_s, DeviceSample(info, reading, Activity()))
        return ended

    def _index(self, said: str) -> int:
        if self._identity == "index":
            if not (said.isascii() and said.isdigit() and len(said) <= _LONGEST_NUMBER):
                raise MisfitError("index", Text("not the number of a device"))
            return int(said)
        if said not in self._indices and len(self._indices) >= limits.PARTIES:
            raise MisfitError("", Text("more devices than any host has"))
        return self._indices.setdefault(said, len(self._indices))

    def _figures(self, cells: list[str]) -> dict[str, Any]:
        figures, units = log_names()["figures"], log_names()["units"]
        found: dict[str, Any] = {}
        for (name, unit), cell in zip(self._columns, cells, strict=True):
            figure, number = figures.get(name), _NUMBER.match(cell)
            if figure is not None and number is not None and figure not in found:
                value = float(number[0]) * units.get(unit, 1.0)
                found[figure] = int(value) if figure in WHOLE else value
        return found


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]
    except csv.Error as error:
        raise MisfitError("", Text("not a line of a table")) from error


def _columns(header: str) -> list[tuple[str, str]]:
    """Names and units of the columns; ("", "") for one that has no such name."""
    try:
        cells = _cells(header.lstrip("\ufeff"))
    except MisfitError:
        return []
    named = [_COLUMN.match(cell) for cell in cells]
    return [(each[1], each[2] or "") if each else ("", "") for each in named]


def _unix_s(text: str) -> float:
    """Seconds since 1970 of "2026/05/28 10:00:00.000", with or without the fraction."""
    try:
        when = datetime.fromisoformat(text.replace("/", "-"))
    except ValueError as error:
        raise MisfitError("timestamp", Text("not a time")) from error
    found = when.replace(tzinfo=when.tzinfo or UTC).timestamp()
    if found < 0:
        raise MisfitError("timestamp", Text("not a time"))
    return found


def _reasons(said: Mapping[str, str]) -> tuple[str, ...] | None:
    """Why the clock is held down: bits of NVML's in one column, or a column each."""
    found, asked = [], False
    for name, cell in said.items():
        reason = _REASON.match(name)
        if reason is None:
            continue
        if reason[1] == "active" and re.fullmatch(r"0x[0-9a-fA-F]{1,16}", cell):
            asked = True
            found += [held.value for bit, held in REASONS if int(cell, 16) & bit]
        elif reason[1] in log_names()["reasons"] and cell in ("Active", "Not Active"):
            asked = True
            found += [log_names()["reasons"][reason[1]]] if cell == "Active" else []
    return tuple(dict.fromkeys(found)) if asked else None
