"""Quantities as people write them ("8TB/s", "288 GB", "1.98GHz") to SI base units.

Also the `--set field=quantity` and `--sweep field=low..high` forms of the command line.
"GB" is 10^9 bytes and "GiB" 2^30; "Gb/s" and "Gbps" are bits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.hardware.device import DTYPE_RATES, REPLACEABLE

_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18}
_SMALL = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9}
_NUMBER = r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_QUANTITY = re.compile(rf"^\s*({_NUMBER})\s*(\S.*?)?\s*$")

#: What people call a figure, to the `Device` field.
_FIELD_NAMES: Mapping[str, str] = {
    "memory_bandwidth": "memory_bandwidth_bytes_per_s",
    "bandwidth": "memory_bandwidth_bytes_per_s",
    "memory": "memory_bytes",
    "usable_memory": "memory_usable_bytes",
    "sm_count": "compute_units",
    "sms": "compute_units",
    "cus": "compute_units",
    "units": "compute_units",
    "clock": "clock_hz",
    "l2": "l2_bytes",
    "l1": "l1_per_unit_bytes",
    "shared_memory": "shared_memory_per_unit_bytes",
    "tdp": "tdp_w",
    "power": "tdp_w",
    "power_limit": "tdp_w",
    "idle_power": "idle_power_w",
    "price": "price_usd_per_hour",
    "launch_latency": "launch_latency_s",
    "scale_up": "scale_up_bandwidth_bytes_per_s",
    "scale_up_bandwidth": "scale_up_bandwidth_bytes_per_s",
    "nvlink": "scale_up_bandwidth_bytes_per_s",
    "host_link": "host_link_bandwidth_bytes_per_s",
    "host_link_bandwidth": "host_link_bandwidth_bytes_per_s",
    "pcie": "host_link_bandwidth_bytes_per_s",
    "flops": "peak_flops_per_s",
    "peak_flops": "peak_flops_per_s",
}

#: Sweepable things that are not figures of a device: counts, stepped by doubling.
WORKLOAD_COUNTS: tuple[str, ...] = ("batch", "seq", "image", "context", "layers", "devices")

_UNIT_LEFT_OUT = ("count", "W", "USD/h")
"""Dimensions that a bare number has."""

_SWEEP_POINTS = 9
_MAX_SWEEP_POINTS = 1000


def parse_quantity(text: str, dimension: str) -> float:
    """Return a quantity in SI base units.

    Args:
        text: a number and a unit, such as "8TB/s" or "2.5 us"; a bare number is in base units.
        dimension: "bytes", "bytes/s", "Hz", "W", "s", "FLOP/s", "USD/h" or "count".

    Raises:
        InvalidValueError: not a number, or a unit of another dimension.
    """
    match = _QUANTITY.match(text)
    if match is None:
        raise InvalidValueError(
            Text("'{text}' is not a quantity.", text=text),
            Text("Expected a number and a unit of {dimension}.", dimension=dimension),
            Text("Write for example: {examples}", examples=_EXAMPLES[dimension]),
        )
    number = float(match[1].replace("_", ""))
    value = number * _scale(match[2] or "", dimension, text)
    if not math.isfinite(value):
        raise InvalidValueError(Text("'{text}' is too large a number.", text=text))
    return value


_EXAMPLES: Mapping[str, str] = {
    "bytes": Text("288GB or 256GiB"),
    "bytes/s": Text("8TB/s or 400Gb/s"),
    "Hz": "1.98GHz",
    "W": "700W",
    "s": "2.5us",
    "FLOP/s": "989TFLOPS",
    "USD/h": Text("7.91 or 7.91$/h"),
    "count": "160",
}


def _scale(unit: str, dimension: str, text: str) -> float:
    if not unit:
        return 1.0
    scale = _UNIT_SCALES[dimension](unit.replace(" ", ""))
    if scale is None:
        raise InvalidValueError(
            Text(
                "'{text}': '{unit}' is no unit of {dimension}.",
                text=text,
                unit=unit,
                dimension=dimension,
            ),
            "",
            Text("Write for example: {examples}", examples=_EXAMPLES[dimension]),
        )
    return scale


def _bytes_scale(unit: str) -> float | None:
    if match := re.fullmatch(r"([kKMGTPE]?)i?[bB](?:ytes?)?", unit):
        prefix = match[1].lower()
        if "i" in unit:
            return 1024.0 ** " kmgtpe".index(prefix) if prefix else None
        is_bits = unit.endswith("b") and prefix != ""
        return None if is_bits else _PREFIX[prefix]
    return None


def _rate_scale(unit: str) -> float | None:
    if match := re.fullmatch(r"(.+?)(?:/s|/sec|ps)", unit):
        amount = match[1]
        if bits := re.fullmatch(r"([kKMGTP]?)(?:b|bit|bits)", amount):
            return _PREFIX[bits[1].lower()] / 8
        return _bytes_scale(amount)
    return None


def _named_scale(
    unit: str, names: str, prefixes: Mapping[str, float], fold: bool = False
) -> float | None:
    flags = re.IGNORECASE if fold else 0
    match = re.fullmatch(rf"([kKMGTPEmuµμn]?)(?:{names})", unit, flags)
    if match is None:
        return None
    prefix = match[1]
    return prefixes.get(prefix.lower() if fold else prefix)


def _money_scale(unit: str) -> float | None:
    return 1.0 if re.fullmatch(r"(?:USD|\$)(?:/h|/hour)?", unit, re.IGNORECASE) else None


_WATTS = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6}

_UNIT_SCALES: Mapping[str, Callable[[str], float | None]] = {
    "bytes": _bytes_scale,
    "bytes/s": _rate_scale,
    "Hz": lambda unit: _named_scale(unit, "Hz", _PREFIX, fold=True),
    "W": lambda unit: _named_scale(unit, "W", _WATTS),
    "s": lambda unit: _named_scale(unit, "s|sec", _SMALL),
    "FLOP/s": lambda unit: _named_scale(unit, "FLOPS|FLOP/s|OPS|OP/s", _PREFIX, fold=True),
    "USD/h": _money_scale,
    "count": lambda unit: None,
}


def field_for(name: str) -> tuple[str, str]:
    """Return the `Device` field that people mean, and its dimension.

    A dtype ("bf16") means the peak rate of that dtype.

    Raises:
        UnknownNameError: no such figure; lists the near names.
    """
    key = name.strip().lower().replace("-", "_")
    field = _FIELD_NAMES.get(key, key)
    if field in REPLACEABLE:
        return field, _dimension(field)
    if field == "peak_flops_per_s" or key in DTYPE_RATES or key in ("fp32_tensor", "fp64_tensor"):
        return field, "FLOP/s"
    known = [*_FIELD_NAMES, *REPLACEABLE, *DTYPE_RATES, *WORKLOAD_COUNTS]
    raise UnknownNameError(
        Text("device figure"), name, known, Text("Type: gpuscope devices --fields")
    )


def _dimension(field: str) -> str:
    for suffix, dimension in (
        ("_bytes_per_s", "bytes/s"),
        ("_bytes", "bytes"),
        ("_hz", "Hz"),
        ("_per_hour", "USD/h"),
        ("_w", "W"),
        ("_s", "s"),
    ):
        if field.endswith(suffix) and field != "compute_units":
            # "max_warps_per_unit" and its like end in none of these.
            return "count" if field.endswith(("_units", "_devices", "_engines")) else dimension
    return "count"


def parse_overrides(settings: Iterable[str]) -> dict[str, Any]:
    """Read `--set` options: "memory_bandwidth=8TB/s", "sm_count=160", "bf16=2PFLOPS".

    A number without a unit is taken where the figure's name has the unit ("memory_bytes=8e10"), and
    where people leave it out (watts, dollars an hour, counts).

    Returns:
        Keyword arguments for `Device.replace`.

    Raises:
        UnknownNameError: no such figure.
        InvalidValueError: no "=", no unit or a wrong one, one figure twice, or a value that is not
            positive.
    """
    overrides: dict[str, Any] = {}
    rates: dict[str, float] = {}
    for setting in settings:
        name, value = _split(setting)
        field, dimension = field_for(name)
        _needs_unit(name, value, field, dimension)
        if field in overrides or field in rates:
            raise InvalidValueError(
                Text("'{setting}' sets a figure for the second time.", setting=setting),
                "",
                Text("Leave one of them out."),
            )
        quantity = _positive(parse_quantity(value, dimension), setting)
        if dimension == "FLOP/s" and field != "peak_flops_per_s":
            rates[field] = quantity
        elif field == "peak_flops_per_s":
            raise InvalidValueError(
                Text("'{setting}': of which dtype?", setting=setting),
                Text("Each has its own peak."),
                Text("Type: --set bf16=2PFLOPS"),
            )
        else:
            overrides[field] = quantity
    if rates:
        overrides["peak_flops_per_s"] = rates
    return overrides


def _needs_unit(name: str, value: str, field: str, dimension: str) -> None:
    """Refuse "memory=288", which would be 288 bytes.

    Raises:
        InvalidValueError: a bare number of a figure whose name does not say the unit.
    """
    match = _QUANTITY.match(value)
    bare = match is not None and not match[2]
    named = dimension != "FLOP/s" and name.lower().replace("-", "_") == field
    if bare and not named and dimension not in _UNIT_LEFT_OUT:
        raise InvalidValueError(
            Text("'{name}={value}' has no unit.", name=name, value=value),
            Text("Expected a number and a unit of {dimension}.", dimension=dimension),
            Text("Write for example: {examples}", examples=_EXAMPLES[dimension]),
        )


def parse_sweep(text: str) -> tuple[str, tuple[float, ...]]:
    """Read a `--sweep` option.

    "memory_bandwidth=2..10TB/s" gives 2, 3, ... 10 TB/s; "memory=80,141,288GB" gives these three;
    ":5" at the end asks for five points. Workload counts ("batch", "seq",
    "image", "devices", ...) go up by doubling.

    Returns:
        The `Device` field (or dtype, or workload count) and its values in SI base units.

    Raises:
        UnknownNameError: no such figure.
        InvalidValueError: a range that is empty or runs backwards, or a wrong unit.
    """
    name, values = _split(text)
    key = name.strip().lower()
    field, dimension = (key, "count") if key in WORKLOAD_COUNTS else field_for(name)
    if ".." not in values:
        _needs_unit(name, values.rpartition(",")[2], field, dimension)
        return field, _listed(values, dimension, text)
    body, _, points = values.partition(":")
    low_text, _, high_text = body.partition("..")
    _needs_unit(name, high_text, field, dimension)
    unit_match = _QUANTITY.match(high_text)
    unit = (unit_match[2] or "") if unit_match else ""
    low_match = _QUANTITY.match(low_text)
    if low_match is not None and not low_match[2]:
        low_text += unit
    low = _positive(parse_quantity(low_text, dimension), text)
    high = _positive(parse_quantity(high_text, dimension), text)
    if high <= low:
        raise InvalidValueError(
            Text(
                "'{text}': the range runs from {low} to {high}.",
                text=text,
                low=Number(low, "g"),
                high=Number(high, "g"),
            ),
            "",
            Text("Write the smaller end first."),
        )
    if key in WORKLOAD_COUNTS and not points:
        return field, _doubling(low, high)
    step = _scale(unit, dimension, text)
    return field, _spaced(low, high, _point_count(points, low / step, high / step), dimension)


def _point_count(points: str, low: float, high: float) -> int:
    """Return how many points: as asked, one a unit if that gives few, else nine."""
    if points:
        if not points.strip().isdigit() or not 2 <= int(points) <= _MAX_SWEEP_POINTS:
            raise InvalidValueError(
                Text("'{points}' is no number of points.", points=points),
                Text("It must be 2 to {most}.", most=_MAX_SWEEP_POINTS),
            )
        return int(points)
    steps = high - low
    whole = abs(steps - round(steps)) < 1e-9 and abs(low - round(low)) < 1e-9
    return round(steps) + 1 if whole and 1 <= steps <= 16 else _SWEEP_POINTS


def _spaced(low: float, high: float, count: int, dimension: str) -> tuple[float, ...]:
    values = [low + (high - low) * i / (count - 1) for i in range(count)]
    if dimension in ("count", "bytes"):
        values = [float(round(value)) for value in values]
    return tuple(dict.fromkeys(values))


def _doubling(low: float, high: float) -> tuple[float, ...]:
    values = [low]
    while values[-1] * 2 < high:
        values.append(values[-1] * 2)
    return (*values, high)


def _listed(values: str, dimension: str, text: str) -> tuple[float, ...]:
    parts = [part.strip() for part in values.split(",")]
    last = _QUANTITY.match(parts[-1])
    unit = (last[2] or "") if last else ""
    found = []
    for part in parts:
        match = _QUANTITY.match(part)
        bare = match is not None and not match[2]
        found.append(_positive(parse_quantity(part + unit if bare else part, dimension), text))
    return tuple(found)


def _split(setting: str) -> tuple[str, str]:
    name, equals, value = setting.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise InvalidValueError(
            Text("'{setting}' is no setting.", setting=setting),
            Text("It has the form field=value."),
            Text("Type: memory=288GB"),
        )
    return name.strip(), value.strip()


def _positive(value: float, text: str) -> float:
    if value <= 0:
        raise InvalidValueError(Text("'{text}': the value must be greater than zero.", text=text))
    return value
