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

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any, Literal

from gpuscope.document.printable import counted, short_repr
from gpuscope.document.text import Text
from gpuscope.errors import CatalogueError, UnknownNameError
from gpuscope.hardware.device import Device
from gpuscope.hardware.loader import device as device_named
from gpuscope.hardware.loader import toml_of
from gpuscope.hardware.names import CATALOGUE

CALIBRATIONS = CATALOGUE / "calibrations"
_LARGEST = 1e300
_DEEPEST = 20
PRIOR = CATALOGUE / "priors" / "unmeasured.toml"


class Distance(StrEnum):
    """How far the device that constants were found on is from the one they serve."""

    SAME_DEVICE = "same device"
    KERNELS_ONLY = "same device, kernels only"
    """Fitted to kernels of the device itself, carried for the rest."""
    SAME_GENERATION = "same generation"
    SAME_VENDOR = "same vendor"
    OTHER_VENDOR = "other vendor"
    NONE = "none"


Evidence = Literal["measured", "carried", "prior"]
"""Constants of the device itself; of others that its maker made; of nobody's but other makers'."""

#: How much wider a carried constant's spread gets, and the least it can be (relative 80 %
#: half-widths; a judgement, to be replaced when a second device of a kind is calibrated).
_CARRIED_SPREAD: Mapping[Distance, tuple[float, float]] = {
    Distance.SAME_GENERATION: (1.5, 0.08),
    Distance.SAME_VENDOR: (2.0, 0.15),
    Distance.OTHER_VENDOR: (3.0, 0.25),
}

_OF_NO_DEVICE = "host.scale"
"""How much hosts differ: the same in front of every device, so that it is lent as it is."""

_OF_THE_DIE = (".l2_bytes_per_clock_per_unit", ".floor_s")
"""Constants that graphics dies share across generations: 11 to 13 bytes a clock where dies with
stacked memory have 28 to 46, and kernels of 0.8 to 0.9 us where those take up to 2.3."""

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
        distance: how far that one is from this.
        measured_with: software and date of the measurement, in words.
        entries: name and constant, sorted by name.
        nearest: how far the nearest device is of which any kernel was measured; None: as
            `distance`.
    """

    device_id: str
    measured_on: str | None
    distance: Distance
    measured_with: str = ""
    entries: tuple[tuple[str, CalibratedValue], ...] = ()
    nearest: Distance | None = None

    @property
    def evidence(self) -> Evidence:
        """What stands behind times of kernels: the device, its maker's others, or neither."""
        nearest = self.nearest or self.distance
        if nearest in (Distance.SAME_DEVICE, Distance.KERNELS_ONLY):
            return "measured"
        return "carried" if nearest in (Distance.SAME_GENERATION, Distance.SAME_VENDOR) else "prior"

    def __repr__(self) -> str:
        constants = counted(len(self.entries), "constant")
        measured = f"measured on {self.measured_on}" if self.measured_on else "nothing measured"
        return short_repr(self, self.device_id, constants, measured)

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

    def entry(self, *names: str) -> CalibratedValue:
        """Return the first of some constants that is known, with its interval, unit and note.

        What was not measured here is lent by the nearest relative, see `calibration_for`.

        Raises:
            UnknownNameError: nobody has such a constant; lists the near ones.
        """
        for known in (self, lent_to(self.device_id)):
            for name in names:
                found = known._find(name)
                if found is not None:
                    return found
        raise UnknownNameError(
            Text("calibrated constant"), names[0], self.names(), Text("Measure it: gpuscope bench")
        )

    def value(self, *names: str) -> float:
        """Return the value of the first of some constants that is known; see `entry`."""
        return self.entry(*names).value

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
    for (name, _), (following, _) in pairwise(entries):
        if name == following:
            raise CatalogueError(
                Text("{path}: '{twice}' stands in two files.", path=path.name, twice=name)
            )
    with_ = "; ".join(dict.fromkeys(p.measured_with for p in parts if p.measured_with))
    return Calibration(path.name, path.name, Distance.SAME_DEVICE, with_, tuple(entries))


def read_calibration_file(path: Path, device_id: str) -> Calibration:
    """Read one file as constants of `device_id`, wherever it lies.

    Raises:
        CatalogueError: not TOML, for another device, or a constant that does not validate.
    """
    return _load_file(path, device_id)


def carried_to(found: Calibration, source: Device, device: Device) -> Calibration:
    """Return constants measured on `source` as estimates for `device`."""
    return _lent(found, device.id, _distance(device, source))


def _load_file(path: Path, expected_id: str) -> Calibration:
    content = toml_of(path)
    inside = path.stem != expected_id
    device_id = content.pop("device", expected_id if inside else None)
    if device_id != expected_id:
        raise CatalogueError(
            Text(
                "{path}: field 'device' must be '{expected_id}'.",
                path=path.name,
                expected_id=expected_id,
            )
        )
    measured_with = str(content.pop("measured_with", ""))
    entries = {name: _entry(path, name, table) for name, table in _constants(path, content, "")}
    return Calibration(
        device_id, device_id, Distance.SAME_DEVICE, measured_with, tuple(sorted(entries.items()))
    )


def _constants(
    path: Path, table: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if prefix.count(".") > _DEEPEST:
        raise CatalogueError(Text("{path}: tables are nested too deep.", path=path.name))
    for key, value in table.items():
        name = f"{prefix}.{key}" if prefix else key
        if not isinstance(value, dict):
            raise CatalogueError(
                Text("{path}: field '{name}' stands outside a constant.", path=path.name, name=name)
            )
        if "value" in value and not isinstance(value["value"], dict):
            yield name, value
        else:
            yield from _constants(path, value, name)


def _entry(path: Path, name: str, table: Mapping[str, Any]) -> CalibratedValue:
    unknown = set(table) - {"value", "unit", "origin", "low", "high", "note"}
    problem = Text("unknown field '{name}'", name=min(unknown)) if unknown else Text("")
    numbers = [table["value"], table.get("low", table["value"]), table.get("high", table["value"])]
    if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in numbers):
        problem = Text("value, low and high must be numbers")
    elif not all(abs(n) <= _LARGEST for n in numbers):
        problem = Text("value, low and high must be finite numbers")
    elif not numbers[1] <= numbers[0] <= numbers[2]:
        found = f"{numbers[1]} <= {numbers[0]} <= {numbers[2]}"
        problem = Text("low <= value <= high does not hold: {found}", found=found)
    if not all(isinstance(table.get(key, ""), str) for key in ("unit", "origin", "note")):
        problem = Text("unit, origin and note must be texts")
    if "unit" not in table:
        problem = Text('it has no unit (write unit = "1" for a dimensionless constant)')
    origin = table.get("origin", "calibrated")
    if origin not in _ORIGINS:
        problem = Text(
            "origin '{origin}' is none of {origins}", origin=origin, origins=", ".join(_ORIGINS)
        )
    if problem:
        raise CatalogueError(
            Text("{path}: field '{name}': {problem}.", path=path.name, name=name, problem=problem)
        )
    value, low, high = (float(n) for n in numbers)
    return CalibratedValue(value, table["unit"], origin, low, high, table.get("note", ""))


def calibration_for(device: Device) -> Calibration:
    """Return the constants that apply to a device.

    Its own where it was calibrated (a what-if device keeps those of the real one). Each other one
    is the nearest relative's that has it, as an estimate with a wider interval: of the device's
    generation, then of its vendor, then of any; see `_relatives`. Only dimensionless constants,
    fixed times and the host's are lent. A calibration without `host.*` constants is partial. Where
    no device of the maker was measured, `catalogue/priors` says how much of its peaks is reached.
    Empty where nothing was calibrated at all.

    Raises:
        CatalogueError: a calibration file does not validate.
    """
    return _calibration_for(device, CALIBRATIONS)


@lru_cache(maxsize=256)
def _calibration_for(device: Device, folder: Path) -> Calibration:
    path = _paths(folder).get(device.id)
    own = _loaded(path) if path is not None else None
    if own is not None and own.names("host"):
        return own  # the other devices' files, thousands of constants, are not read for it
    lenders = _relatives(device, _catalogued(folder))
    whole = next((each for each in lenders if each.names("host")), None)
    if whole is None:
        return own or Calibration(device.id, None, Distance.NONE)
    entries: dict[str, CalibratedValue] = {}
    for each in (*reversed(lenders), *([own] if own is not None else [])):
        entries.update(each.entries)
    unmeasured = own is None and lenders[0].distance is Distance.OTHER_VENDOR
    if unmeasured:
        entries.update(_prior().entries)
    first = own if own is not None else lenders[0]
    said = dict.fromkeys((first.measured_with, whole.measured_with))
    known = own is not None and not all(name.startswith(_LANES) for name, _ in own.entries)
    return Calibration(
        device.id,
        whole.measured_on,
        Distance.KERNELS_ONLY if known else whole.distance,
        "; ".join(filter(None, said)),
        tuple(sorted(entries.items())),
        Distance.KERNELS_ONLY if known else lenders[0].distance,
    )


_LANES = "matmul.fp32."
"""Products on the vector lanes alone say nothing of a device's matrix units and memory."""


@lru_cache(maxsize=1)
def _prior() -> Calibration:
    """How much of its peaks a device reaches of whose maker's devices nobody measured any."""
    return read_calibration_file(PRIOR, "unmeasured devices")


@lru_cache(maxsize=256)
def lent_to(device_id: str) -> Calibration:
    """Return what the catalogue's devices lend to one; to one that is not in it, as to a stranger.

    Raises:
        CatalogueError: a calibration file does not validate.
    """
    try:
        return calibration_for(device_named(device_id))
    except UnknownNameError:
        whole = (each for each in _catalogued(CALIBRATIONS).values() if each.names("host"))
        found = next(whole, None) or Calibration(device_id, None, Distance.NONE)
        return _lent(found, device_id, Distance.OTHER_VENDOR)


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


def _lent(found: Calibration, device_id: str, distance: Distance) -> Calibration:
    """Constants of one device as estimates for another."""
    factor, least = _CARRIED_SPREAD[distance]
    entries = tuple(
        (name, entry if name == _OF_NO_DEVICE else entry.widened(factor, least))
        for name, entry in found.entries
        if entry.unit in ("1", "s") or name.startswith("host.")
    )
    return Calibration(device_id, found.device_id, distance, found.measured_with, entries)


def _relatives(device: Device, found: Mapping[str, Calibration]) -> list[Calibration]:
    """What the calibrated devices lend to one, the nearest first.

    First those of its generation, then of its vendor, then all others; at one distance first those
    that were measured in whole, then those whose memory is most nearly as fast. Two things come
    before: what is known of the kernels of its generation's devices with its kind of memory
    (without it a device counts as of the vendor only); and, where there is none, for a graphics die
    what belongs to the kind of die from the vendor's other graphics dies: the path from a
    multiprocessor to the L2 and the shortest kernel. With that alone the products of an L40S are
    17 % off instead of 26 %, those of an RTX PRO 6000 14 % instead of 15 %, where each knows only
    the other (`benchmarks/fit/leave_one_out.py`).
    """
    rate = device.memory_bandwidth_bytes_per_s

    def unlike(other: Device) -> tuple[float, str]:
        return abs(log(other.memory_bandwidth_bytes_per_s / rate)), other.id

    others = sorted((device_named(name) for name in found if name != device.id), key=unlike)
    partial = [d for d in others if not found[d.id].names("host")]
    alike = [d for d in partial if d.vendor == device.vendor and _graphics(d) == _graphics(device)]
    near = [d for d in alike if _distance(device, d) is Distance.SAME_GENERATION]
    lenders = [
        _without_lanes(lent) if _held(found[d.id]) and _more_power(device, d) else lent
        for d in near
        for lent in [_lent(found[d.id], device.id, Distance.SAME_GENERATION)]
    ]
    if not near and _graphics(device):
        lenders += [_of_the_die(found[d.id], device.id) for d in alike]

    def rank(other: Device) -> tuple[int, bool]:
        distance, whole = _distance(device, other), other not in partial
        if distance is Distance.SAME_GENERATION and not whole:
            distance = Distance.SAME_VENDOR
        return list(_CARRIED_SPREAD).index(distance), not whole

    rest = sorted((d for d in others if d not in near), key=rank)
    return [*lenders, *(_lent(found[d.id], device.id, _distance(device, d)) for d in rest)]


def _of_the_die(found: Calibration, device_id: str) -> Calibration:
    """What one of a vendor's graphics dies lends to another of any generation."""
    lent = _lent(found, device_id, Distance.SAME_VENDOR)
    return replace(lent, entries=tuple(e for e in lent.entries if e[0].endswith(_OF_THE_DIE)))


def _held(found: Calibration) -> bool:
    """Whether products on a card's vector lanes slow down as they last: by its power."""
    return any(name == f"{_LANES}throttle" and each.value > 0.05 for name, each in found.entries)


def _more_power(device: Device, other: Device) -> bool:
    """Whether a device has far more watts a float32 FLOP than another.

    An L4's 72 W hold its vector lanes below their clock, at 0.4 of their peak (NeuSight's
    measurements); of the other dies of its generation, with 1.4 to 4 times as much, that says
    nothing. Where the watts or the rate are not known, nothing is held against the other.
    """
    mine, its = (
        d.tdp_w / rate if d.tdp_w and (rate := dict(d.peaks).get("fp32")) else None
        for d in (device, other)
    )
    return mine is not None and its is not None and mine > 1.25 * its


def _without_lanes(lent: Calibration) -> Calibration:
    return replace(lent, entries=tuple(e for e in lent.entries if not e[0].startswith(_LANES)))


def _graphics(device: Device) -> bool:
    """Whether it is a graphics die: GDDR, not stacked memory."""
    return (device.memory_type or "").startswith("GDDR")


def _distance(device: Device, other: Device) -> Distance:
    if device.vendor != other.vendor:
        return Distance.OTHER_VENDOR
    same = device.architecture == other.architecture or (
        device.compute_capability is not None
        and other.compute_capability is not None
        and device.compute_capability[0] == other.compute_capability[0]
    )
    return Distance.SAME_GENERATION if same else Distance.SAME_VENDOR
