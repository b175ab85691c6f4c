"""Figures of the catalogue of devices and links, as sources for checks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from gpuscope.document.text import Text, verbatim
from gpuscope.errors import UnknownNameError
from gpuscope.hardware import Device, Interconnect, device, devices, interconnect
from gpuscope.hardware.device import RATE_DTYPES
from gpuscope.learn.claims.scales import in_unit
from gpuscope.learn.claims.types import Figure, NoFigureError, figure

_FIELDS: Mapping[str, tuple[Text, str]] = {
    "compute_units": (Text("compute units"), ""),
    "clock_hz": (Text("boost clock"), "GHz"),
    "memory_bytes": (Text("memory"), "GiB"),
    "memory_bandwidth_bytes_per_s": (Text("memory bandwidth"), "GB/s"),
    "l2_bytes": (Text("L2 cache"), "MiB"),
    "last_level_cache_bytes": (Text("last-level cache"), "MiB"),
    "on_chip_sram_bytes": (Text("on-chip SRAM"), "MB"),
    "tdp_w": (Text("power limit"), "W"),
    "launch_year": (Text("year of launch"), "year"),
    "price_usd_per_hour": (Text("price an hour"), "USD"),
    "warp_size": (Text("warp size"), "threads"),
    "max_threads_per_unit": (Text("resident threads of a unit"), "threads"),
    "max_blocks_per_unit": (Text("resident blocks of a unit"), "blocks"),
    "fp32_lanes_per_unit": (Text("FP32 lanes of a unit"), ""),
    "fp16_lanes_per_unit": (Text("FP16 lanes of a unit"), ""),
    "structured_sparsity_multiplier": (Text("gain of structured sparsity"), "x"),
    "scale_up_max_devices": (Text("devices in one scale-up domain"), ""),
    "devices_per_node": (Text("devices of a node"), ""),
    "scale_out_ports_per_node": (Text("fabric ports of a node"), ""),
}
"""Field of `Device` to its name and unit."""

_LINK_FIELDS: Mapping[str, tuple[Text, str]] = {
    "bandwidth_bytes_per_s": (Text("one direction"), "GB/s"),
    "bandwidth_per_link_bytes_per_s": (Text("one link, one direction"), "GB/s"),
    "links_per_device": (Text("links of a device"), ""),
    "max_devices": (Text("devices that it joins at most"), ""),
    "latency_s": (Text("latency"), "µs"),
}

ORIGINS: Mapping[str, Text] = {
    "datasheet": Text("datasheet"),
    "secondary source": Text("secondary source"),
    "measured": Text("measured"),
    "calibrated": Text("calibrated"),
    "estimated": Text("estimated"),
}
"""How a figure of a device is known, in words."""


@figure
def catalogue(name: str, field: str) -> Figure:
    """A figure of a device: a numeric field of `Device`, or its peak rate by dtype.

    Args:
        name: the device, as `gpuscope.device` takes it.
        field: a field, or "bf16", "fp16", "tf32", ... for the dense peak, FLOP/s.

    Raises:
        UnknownNameError: no such device or figure.
        NoFigureError: the catalogue has no such figure for the device.
    """

    found = device(name)
    if field in dict(found.peaks):
        value, about = dict(found.peaks)[field], _rate_words(field)
    elif field.removesuffix("_tensor") in RATE_DTYPES:
        raise _not_stated(found.name, _rate_words(field)[0])
    elif field not in _FIELDS:
        raise UnknownNameError("figure", field, (*_FIELDS, *RATE_DTYPES))
    else:
        about = _FIELDS[field]
        if getattr(found, field) is None:
            raise _not_stated(found.name, about[0])
        value = found.require(field)
    return _figure(found, field, float(value), about)


def _not_stated(name: str, what: Text) -> NoFigureError:
    return NoFigureError(
        Text("No source of the catalogue states it: {name}, {what}.", name=name, what=what)
    )


def _rate_words(field: str) -> tuple[Text, str]:
    rate = field.upper().replace("_TENSOR", " tensor core")
    return Text("dense {rate} peak", rate=rate), "TFLOPS"


def _figure(found: Device, field: str, value: float, about: tuple[Text, str]) -> Figure:
    what, unit = about
    origin = found.origin(field) or "datasheet"
    return Figure(
        value,
        Text(
            "{device}, {what}: {shown} ({origin})",
            device=found.name,
            what=what,
            shown=in_unit(value, unit),
            origin=ORIGINS.get(origin, origin),
        ),
        verbatim(_short(found)),
        "catalogue",
        _sources(found, field),
    )


def _sources(found: Device, field: str) -> tuple[str, ...]:
    return dict(found.sources).get(field, ())


def _short(found: Device) -> str:
    return found.name.removeprefix(f"{found.vendor} ")


@figure
def has_rate(name: str, dtype: str) -> Figure:
    """1 if the catalogue states a rate of the device for a dtype, else 0."""

    found = device(name)
    rates = {rate.removesuffix("_tensor") for rate, _ in found.peaks}
    stated = dtype in rates
    values = {"device": found.name, "dtype": dtype.upper()}
    return Figure(
        float(stated),
        Text("{device}: {dtype} rate stated", **values)
        if stated
        else Text("{device}: {dtype} rate not stated", **values),
        verbatim(_short(found)),
        "catalogue",
        _sources(found, dtype),
    )


@figure
def most(field: str, vendor: str = "", architecture: str = "", least: bool = False) -> Figure:
    """The largest (or least) value of a field in the whole catalogue, and whose it is."""

    found = [
        d
        for d in devices()
        if vendor in d.vendor and architecture in d.architecture and _value(d, field)
    ]
    best = (min if least else max)(found, key=lambda d: _value(d, field))
    return _figure(best, field, _value(best, field), _FIELDS.get(field) or _rate_words(field))


def _value(found: Device, field: str) -> float:
    rates = dict(found.peaks)
    return float(rates[field] if field in rates else getattr(found, field, 0) or 0)


@figure
def how_many(vendor: str, field: str, value: str) -> Figure:
    """The share of a vendor's devices whose text field has a value, 0..1."""

    all_ = [d for d in devices() if d.vendor == vendor]
    hits = [d for d in all_ if getattr(d, field) == value]
    how = Text(
        "{hits} of {count} {vendor} devices have {field} = {value}",
        hits=len(hits),
        count=len(all_),
        vendor=vendor,
        field=field,
        value=value,
    )
    return Figure(len(hits) / len(all_), how, verbatim(vendor), "catalogue")


@figure
def process_nm(name: str) -> Figure:
    """The process of a device in metres, read from its name ("TSMC N5", "TSMC 7nm")."""

    found = device(name)
    match = re.search(r"(\d+)\s*nm|\bN(\d)\b", found.process or "")
    if match is None:
        raise _not_stated(found.name, Text("process node"))
    metres = float(f"{match[1] or match[2]}e-9")
    return Figure(
        metres,
        Text("{device}, process: {process}", device=found.name, process=found.process),
        verbatim(_short(found)),
        "catalogue",
        _sources(found, "process"),
    )


@figure
def text_is(name: str, field: str, wanted: str) -> Figure:
    """1 if a text field of a device is exactly `wanted`, else 0."""

    found = device(name)
    value = str(getattr(found, field))
    return Figure(
        float(value == wanted),
        Text(
            "{device}, {field}: {value}",
            device=found.name,
            field=field.replace("_", " "),
            value=value,
        ),
        verbatim(_short(found)),
        "catalogue",
        _sources(found, field),
    )


@figure
def link(name: str, field: str = "bandwidth_bytes_per_s") -> Figure:
    """A figure of an interconnect, by default its bandwidth in ONE direction, bytes/s."""

    return _link_figure(interconnect(name), field)


@figure
def own_link(name: str, which: str) -> Figure:
    """Bandwidth in one direction of a device's own "host_link", "scale_up" or "scale_out"."""

    found = device(name)
    way = getattr(found, which)
    if way is None:
        raise _not_stated(found.name, Text("{which} (link)", which=which.replace("_", " ")))
    of_link = _link_figure(way, "bandwidth_bytes_per_s")
    how = Text("{device}, {link}", device=found.name, link=of_link.how)
    return replace(of_link, how=how, label=verbatim(found.name))


def _link_figure(found: Interconnect, field: str) -> Figure:
    value = getattr(found, field)
    what, unit = _LINK_FIELDS[field]
    if value is None:
        raise _not_stated(found.name, what)
    shown = in_unit(float(value), unit)
    return Figure(
        float(value),
        Text("{link}, {what}: {shown}", link=found.name, what=what, shown=shown),
        verbatim(found.name),
        "catalogue",
        found.sources,
    )


@figure
def kind_is(name: str, *kinds: str) -> Figure:
    """1 if an interconnect is of one of these kinds ("host", "scale-up", ...), else 0."""

    found = interconnect(name)
    return Figure(
        float(found.kind in kinds),
        Text("{found}: kind {kind}", found=found.name, kind=found.kind),
        verbatim(found.name),
        "catalogue",
        found.sources,
    )


@figure
def topology_has(name: str, word: str) -> Figure:
    """1 if an interconnect's topology names a word, else 0."""

    found = interconnect(name)
    text = found.topology or "not stated"
    return Figure(
        float(word.lower() in text.lower()),
        Text("{found}, topology: {text}", found=found.name, text=text),
        verbatim(found.name),
        "catalogue",
        found.sources,
    )
