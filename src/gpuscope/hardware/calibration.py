"""`Calibration`: constants measured on a real device, and how far they can be trusted.

A calibration file (`catalogue/calibrations/<device id>.toml`) holds named values:

    device = "nvidia-h200-sxm"
    measured_with = "driver, PyTorch and date of the measurement"

    [matmul.bf16.efficiency_max]
    value = 0.81
    unit = "1"
    low = 0.78
    high = 0.84

Tables nest as deep as names need; a table with a `value` is a constant, and its name is the dotted
path. A calibration may also be a folder `<device id>/` of such files, one a kind of kernel
(`device` may then be left out). Dimensionless constants (`unit = "1"`), fixed times (`unit = "s"`:
launch floors and the like) and those of the host (`host.*`) are carried over to devices that
nobody has calibrated; rates are not.
"""

from __future__ import annotations

import tomllib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log
from pathlib import Path
from typing import Any

from gpuscope.errors import CatalogueError, UnknownNameError
from gpuscope.hardware.device import Device
from gpuscope.hardware.loader import device as device_named
from gpuscope.hardware.names import CATALOGUE

CALIBRATIONS = CATALOGUE / "calibrations"

#: How much wider a carried constant's spread gets, and the least it can be (relative 80 %
#: half-widths; a judgement, to be replaced when a second device of a kind is calibrated).
_CARRIED_SPREAD: Mapping[str, tuple[float, float]] = {
    "same generation": (1.5, 0.08),
    "same vendor": (2.0, 0.15),
    "other vendor": (3.0, 0.25),
}

_OF_THE_DIE = (".l2_bytes_per_clock_per_unit", ".floor_s")
"""Constants that graphics dies share across generations: 11 to 13 bytes a clock where dies with
stacked memory have 28 to 46, and kernels of 0.8 to 0.9 us where those take up to 2.3."""

PARTLY = "same device, kernels only"
"""Distance of constants that were fitted to kernels of the device itself, carried for the rest."""

_ORIGINS = ("measured", "calibrated", "datasheet", "estimated")


@dataclass(frozen=True, slots=True)
class CalibratedValue:
    """One constant with the interval that holds 80 % of its measurements.

    Attributes:
        value: in `unit`.
        unit: SI, or "1" for a dimensionless constant.
        origin: "measured", "calibrated" (fitted), "datasheet" or "estimated".
        low: lower end of the 80 % interval.
        high: upper end of the 80 % interval.
        note: how it was measured, or what to doubt; may be empty.
    """

    value: float
    unit: str
    origin: str
    low: float
    high: float
    note: str = ""

    @property
    def spread(self) -> float:
        """Half the 80 % interval relative to the value; 0 for a value of 0."""
        return (self.high - self.low) / 2 / abs(self.value) if self.value else 0.0

    def widened(self, factor: float, least: float) -> CalibratedValue:
        """Return the value as an estimate for another device, with a wider interval."""
        half = max(self.spread * factor, least) * abs(self.value)
        low, high = self.value - half, self.value + half
        return replace(self, origin="estimated", low=low, high=high)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The measured constants that apply to one device.

    Attributes:
        device_id: the device it is for.
        measured_on: the device that was measured (in whole); None where none was.
        distance: "same device", "same device, kernels only", "same generation", "same vendor",
            "other vendor" or "none".
        measured_with: software and date of the measurement, in words.
        entries: name and constant, sorted by name.
    """

    device_id: str
    measured_on: str | None
    distance: str
    measured_with: str = ""
    entries: tuple[tuple[str, CalibratedValue], ...] = ()

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def _find(self, name: str) -> CalibratedValue | None:
        """Look a name up by bisection: the entries are sorted, and kernels ask often."""
        at = bisect_left(self.entries, name, key=lambda entry: entry[0])
        if at < len(self.entries) and self.entries[at][0] == name:
            return self.entries[at][1]
        return None

    def names(self, prefix: str = "") -> tuple[str, ...]:
        """Return the names of the constants, or of those under a dotted prefix."""
        return tuple(n for n, _ in self.entries if not prefix or n.startswith(f"{prefix}."))

    def entry(self, name: str) -> CalibratedValue:
        """Return a constant with its interval, unit and note.

        Raises:
            UnknownNameError: no such constant; lists the near ones.
        """
        found = self._find(name)
        if found is not None:
            return found
        raise UnknownNameError(
            "calibrated constant", name, self.names(), "Measure it: gpuscope bench"
        )

    def value(self, name: str) -> float:
        """Return a constant's value, in its unit.

        Raises:
            UnknownNameError: no such constant.
        """
        return self.entry(name).value

    def get(self, name: str, default: float) -> float:
        """Return a constant's value, or `default` where it was not measured."""
        found = self._find(name)
        return default if found is None else found.value

    def origin(self, name: str) -> str:
        """Return where a constant comes from.

        Raises:
            UnknownNameError: no such constant.
        """
        return self.entry(name).origin

    def spread(self, name: str) -> float:
        """Return the relative 80 % half-width of a constant.

        Raises:
            UnknownNameError: no such constant.
        """
        return self.entry(name).spread


def load_calibration(path: Path) -> Calibration:
    """Read a calibration file, or a folder of them.

    Raises:
        CatalogueError: missing, not TOML, or a constant that does not validate.
    """
    if path.is_dir():
        return _load_folder(path)
    return _load_file(path, path.stem)


def _load_folder(path: Path) -> Calibration:
    parts = [_load_file(file, path.name) for file in sorted(path.glob("*.toml"))]
    entries = sorted((e for part in parts for e in part.entries), key=lambda entry: entry[0])
    names = [name for name, _ in entries]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise CatalogueError(f"{path.name}: '{sorted(twice)[0]}' stands in two files.")
    with_ = "; ".join(dict.fromkeys(p.measured_with for p in parts if p.measured_with))
    return Calibration(path.name, path.name, "same device", with_, tuple(entries))


def read_calibration_file(path: Path, device_id: str) -> Calibration:
    """Read one file as constants of `device_id`, wherever it lies.

    Raises:
        CatalogueError: not TOML, for another device, or a constant that does not validate.
    """
    return _load_file(path, device_id)


def carried_to(found: Calibration, source: Device, device: Device) -> Calibration:
    """Return constants measured on `source` as estimates for `device`."""
    return _carried(found, device, _distance(device, source))


def _load_file(path: Path, expected_id: str) -> Calibration:
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise CatalogueError(f"{path.name}: cannot be read.", str(error)) from error
    inside = path.stem != expected_id
    device_id = content.pop("device", expected_id if inside else None)
    if device_id != expected_id:
        raise CatalogueError(f"{path.name}: field 'device' must be '{expected_id}'.")
    measured_with = str(content.pop("measured_with", ""))
    entries = {name: _entry(path, name, table) for name, table in _constants(path, content, "")}
    return Calibration(
        device_id, device_id, "same device", measured_with, tuple(sorted(entries.items()))
    )


def _constants(
    path: Path, table: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key, value in table.items():
        name = f"{prefix}.{key}" if prefix else key
        if not isinstance(value, dict):
            raise CatalogueError(f"{path.name}: field '{name}' stands outside a constant.")
        if "value" in value and not isinstance(value["value"], dict):
            yield name, value
        else:
            yield from _constants(path, value, name)


def _entry(path: Path, name: str, table: Mapping[str, Any]) -> CalibratedValue:
    unknown = set(table) - {"value", "unit", "origin", "low", "high", "note"}
    problem = f"unknown field '{sorted(unknown)[0]}'" if unknown else ""
    numbers = [table["value"], table.get("low", table["value"]), table.get("high", table["value"])]
    if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in numbers):
        problem = "value, low and high must be numbers"
    elif not numbers[1] <= numbers[0] <= numbers[2]:
        problem = f"low {numbers[1]} <= value {numbers[0]} <= high {numbers[2]} does not hold"
    if "unit" not in table:
        problem = 'it has no unit (write unit = "1" for a dimensionless constant)'
    origin = table.get("origin", "calibrated")
    if origin not in _ORIGINS:
        problem = f"origin '{origin}' is none of {', '.join(_ORIGINS)}"
    if problem:
        raise CatalogueError(f"{path.name}: field '{name}': {problem}.")
    value, low, high = (float(n) for n in numbers)
    return CalibratedValue(value, table["unit"], origin, low, high, table.get("note", ""))


def calibration_for(device: Device) -> Calibration:
    """Return the constants that apply to a device.

    Its own where it was calibrated (a what-if device keeps those of the real one). Otherwise the
    nearest wholly calibrated device's dimensionless constants and its host's, as estimates with a
    wider spread: by generation, then vendor, then any; what is known of its own kernels, or of
    those of a partly calibrated device that is like it, replaces them. A calibration without
    `host.*` constants is partial. Empty where nothing was calibrated at all.

    Raises:
        CatalogueError: a calibration file does not validate.
    """
    return _calibration_for(device, CALIBRATIONS)


@lru_cache(maxsize=256)
def _calibration_for(device: Device, folder: Path) -> Calibration:
    paths = _paths(folder)
    if device.id in paths:
        own = _loaded(paths[device.id])
        if own.names("host"):
            return own
    found = _catalogued(folder)
    whole = {name: each for name, each in found.items() if each.names("host")}
    partial = found.get(device.id) or _neighbour(device, found, whole)
    if not whole:
        return partial or Calibration(device.id, None, "none")
    order = list(_CARRIED_SPREAD)
    distances = {name: _distance(device, device_named(name)) for name in whole}
    nearest = min(distances, key=lambda name: (order.index(distances[name]), name))
    carried = _carried(whole[nearest], device, distances[nearest])
    return carried if partial is None else _overlaid(carried, partial, device)


@lru_cache(maxsize=8)
def _catalogued(folder: Path) -> dict[str, Calibration]:
    """All calibrations of a folder, by device."""
    return {name: _loaded(path) for name, path in _paths(folder).items()}


def _paths(folder: Path) -> dict[str, Path]:
    """Files and folders of constants, by device."""
    paths = {path.stem: path for path in sorted(folder.glob("*.toml"))}
    paths.update({path.name: path for path in sorted(folder.glob("*")) if path.is_dir()})
    return paths


@lru_cache(maxsize=256)
def _loaded(path: Path) -> Calibration:
    return load_calibration(path)


def _carried(found: Calibration, device: Device, distance: str) -> Calibration:
    """Constants of one device as estimates for another."""
    factor, least = _CARRIED_SPREAD[distance]
    entries = tuple(
        (name, entry.widened(factor, least))
        for name, entry in found.entries
        if entry.unit in ("1", "s") or name.startswith("host.")
    )
    return Calibration(device.id, found.device_id, distance, found.measured_with, entries)


def _neighbour(
    device: Device, found: Mapping[str, Calibration], whole: Mapping[str, Calibration]
) -> Calibration | None:
    """What the partly calibrated device that is most like this one lends it.

    Of its generation and with the same kind of memory: all its kernels' constants. Else, for a
    graphics die, from another of the vendor's graphics dies what belongs to the kind of die: the
    path from a multiprocessor to the L2 and the shortest kernel. With that alone the products of
    an L40S are 17 % off instead of 26 %, those of an RTX PRO 6000 14 % instead of 15 %, where
    each knows only the other (`benchmarks/fit/leave_one_out.py`).
    """
    partly = [device_named(name) for name in found if name not in whole]
    alike = [d for d in partly if d.vendor == device.vendor and _graphics(d) == _graphics(device)]
    near = [d for d in alike if _distance(device, d) == "same generation"]
    if near:
        return _carried(found[_most_similar(device, near).id], device, "same generation")
    if not alike or not _graphics(device):
        return None
    lent = _carried(found[_most_similar(device, alike).id], device, "same vendor")
    entries = tuple((name, e) for name, e in lent.entries if name.endswith(_OF_THE_DIE))
    return replace(lent, entries=entries)


def _most_similar(device: Device, others: list[Device]) -> Device:
    """The one whose memory is most nearly as fast."""
    rate = device.memory_bandwidth_bytes_per_s
    return min(others, key=lambda d: (abs(log(d.memory_bandwidth_bytes_per_s / rate)), d.id))


def _graphics(device: Device) -> bool:
    """Whether it is a graphics die: GDDR, not stacked memory."""
    return (device.memory_type or "").startswith("GDDR")


def _overlaid(below: Calibration, above: Calibration, device: Device) -> Calibration:
    """`above` where it has a constant, else `below`."""
    entries = dict(below.entries) | dict(above.entries)
    own = above.distance == "same device"
    with_ = "; ".join(filter(None, (above.measured_with, below.measured_with)))
    return Calibration(
        device.id, below.measured_on, PARTLY if own else below.distance, with_,
        tuple(sorted(entries.items())),
    )  # fmt: skip


def _distance(device: Device, other: Device) -> str:
    if device.vendor != other.vendor:
        return "other vendor"
    same = device.architecture == other.architecture or (
        device.compute_capability is not None
        and other.compute_capability is not None
        and device.compute_capability[0] == other.compute_capability[0]
    )
    return "same generation" if same else "same vendor"
