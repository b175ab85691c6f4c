"""Reading the catalogue: one TOML file becomes one `Device` or `Interconnect`.

Only the files that are asked for are parsed: a device, its generation's limits, its links and
the table of sources. Each file is validated (msgspec) when it is read.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gpuscope.errors import CatalogueError, UnknownNameError
from gpuscope.hardware.device import Device
from gpuscope.hardware.interconnect import Interconnect
from gpuscope.hardware.names import CATALOGUE, device_ids, interconnect_ids, resolve

if TYPE_CHECKING:
    from gpuscope.hardware.schema import DeviceFile, LimitsFile, Table

    Model = TypeVar("Model", bound=Table)

_FIELD, _VALUE = re.compile(r"field `([^`]*)`"), re.compile(r"value '([^']*)'")

#: Catalogue field to `Device` field, where the two differ.
_RENAMED = {
    "boost_clock_hz": "clock_hz",
    "memory_capacity_bytes": "memory_bytes",
    "scale_up_bytes_per_s": "scale_up_bandwidth_bytes_per_s",
    "host": "host_link",
}

#: Fields that stand outside of any table.
_OWN = (
    "id", "name", "vendor", "architecture", "compute_capability", "launch_year", "process",
    "pytorch_device", "granularity", "confidence", "software_stack",
)  # fmt: skip

#: Figures of a package that its PyTorch devices share out between them.
_SHARED_OUT = (
    "compute_units",
    "memory_bytes",
    "memory_usable_bytes",
    "memory_bandwidth_bytes_per_s",
    "l2_bytes",
    "last_level_cache_bytes",
    "on_chip_sram_bytes",
    "tdp_w",
    "idle_power_w",
    "price_usd_per_hour",
    "price_list_usd",
)


def device(name: str) -> Device:
    """Return a device by the name people or drivers use: "h200", "NVIDIA A100-SXM4-80GB".

    Raises:
        UnknownNameError: no such device; lists the near names.
        CatalogueError: its file does not validate; names the file and the field.
    """
    return _device_by_id(resolve(name))


def devices() -> tuple[Device, ...]:
    """Return every device of the catalogue, by vendor and then by year.

    Raises:
        CatalogueError: a file does not validate; names the file and the field.
    """
    found = [_device_by_id(device_id) for device_id in device_ids()]
    return tuple(sorted(found, key=lambda d: (d.vendor.lower(), d.launch_year or 0, d.id)))


@cache
def interconnect(name: str) -> Interconnect:
    """Return an interconnect by its identifier, such as "nvlink-4".

    Raises:
        UnknownNameError: no such interconnect; lists the near names.
        CatalogueError: its file does not validate.
    """
    if name not in interconnect_ids():
        raise UnknownNameError("interconnect", name, interconnect_ids())
    from gpuscope.hardware.schema import InterconnectFile

    path = CATALOGUE / "interconnects" / f"{name}.toml"
    found = read_file(path, InterconnectFile)
    fields = found.figures(without={"used_by"})
    return Interconnect(**{**fields, "sources": _spelt_out(found.sources, path)})


def interconnects() -> tuple[Interconnect, ...]:
    """Return every interconnect of the catalogue, by identifier."""
    return tuple(interconnect(name) for name in interconnect_ids())


def read_file(path: Path, model: type[Model]) -> Model:
    """Read and validate one catalogue file.

    Raises:
        CatalogueError: missing, not TOML, or a field that does not validate.
    """
    import msgspec

    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
        found = msgspec.convert(content, model)
    except OSError as error:
        raise CatalogueError(f"{path.name}: cannot be read.", str(error)) from error
    except tomllib.TOMLDecodeError as error:
        raise CatalogueError(f"{path.name}: not valid TOML.", str(error)) from error
    except msgspec.ValidationError as error:
        field, reason = _refused(str(error), content)
        raise CatalogueError(
            f"{path.name}: field '{field}' does not validate.", f"{reason}.",
            f"Correct it in {path}.",
        ) from error  # fmt: skip
    file_id = getattr(found, "id", path.stem)
    if file_id != path.stem:
        raise CatalogueError(f"{path.name}: its id '{file_id}' is not the name of the file.")
    return found


def _refused(message: str, content: Mapping[str, Any]) -> tuple[str, str]:
    """The field that a message of msgspec is about, as a dotted path, and what is wrong with it.

    "Expected `float` - at `$.memory.l2_bytes`" names it at the end, "Object missing required field
    `id`" (or "contains unknown field") in its words. Of a table with free keys it tells the value
    only: "Invalid enum value 'rumour' - at `$.origins[...]`".
    """
    reason, _, place = message.partition(" - at ")
    table, is_free, _ = place.strip("`").removeprefix("$").lstrip(".").partition("[...]")
    path = [table] if table else []
    named, value = _FIELD.search(reason), _VALUE.search(reason)
    if named:
        path.append(named[1])
    elif is_free:
        entries = content.get(table, {})
        path += [key for key in entries if value and entries[key] == value[1]][:1]
    return ".".join(path) or "(the whole file)", reason


@lru_cache(maxsize=1)
def _sources() -> dict[str, str]:
    with (CATALOGUE / "sources.toml").open("rb") as file:
        table: dict[str, str] = tomllib.load(file)["sources"]
    return table


def _spelt_out(ids: tuple[str, ...], path: Path) -> tuple[str, ...]:
    """Spell out source identifiers; text with a space in it is a source in its own words."""
    unknown = [i for i in ids if " " not in i and i not in _sources()]
    if unknown:
        raise CatalogueError(
            f"{path.name}: source '{unknown[0]}' is not in sources.toml.",
            "",
            "Add it there, or write the source out in words.",
        )
    return tuple(_sources().get(i, i) for i in ids)


@cache
def _limits(name: str) -> LimitsFile:
    from gpuscope.hardware.schema import LimitsFile

    return read_file(CATALOGUE / "limits" / f"{name}.toml", LimitsFile)


@cache
def _device_by_id(device_id: str) -> Device:
    return load_device(CATALOGUE / "devices" / f"{device_id}.toml")


def load_device(path: Path) -> Device:
    """Read one device file, wherever it lies.

    Raises:
        CatalogueError: the file does not validate; names the file and the field.
    """
    from gpuscope.hardware.schema import DeviceFile

    file = read_file(path, DeviceFile)
    limits = _limits(file.limits) if file.limits else None
    figures = _figures(file, limits)
    origins, sources = _provenance(file, limits, path)
    found = Device(
        **figures,
        notes=(*file.notes, *(limits.notes if limits else ())),
        doubtful=tuple(_RENAMED.get(f, f) for f in file.doubtful),
        origins=tuple(origins.items()),
        sources=tuple(sources.items()),
        **_links(file),
    )
    _check_known(path, found, (*origins, *sources))
    return _one_of_package(found, file.pytorch_devices_per_package)


def _figures(file: DeviceFile, limits: LimitsFile | None) -> dict[str, Any]:
    unit = limits.unit.known() if limits else {}
    tables: dict[str, Any] = {
        **{name: getattr(file, name) for name in _OWN},
        **file.compute.figures(without={"peak_flops_per_s"}),
        **file.memory.figures(),
        **unit,
        **file.unit.known(),
        **file.power.figures(),
        **file.price.figures(without={"price_date"}),
    }
    rates = file.compute.peak_flops_per_s.known()
    figures = {_RENAMED.get(name, name): value for name, value in tables.items()}
    return {**figures, "peaks": tuple(rates.items())}


def _links(file: DeviceFile) -> dict[str, Any]:
    table = file.links
    host = interconnect(table.host).with_lanes(table.host_lanes) if table.host else None
    scale_up = interconnect(table.scale_up) if table.scale_up else None
    if scale_up and table.scale_up_bytes_per_s:
        origin = file.origins.get("scale_up_bytes_per_s", "datasheet")
        scale_up = scale_up.with_bandwidth(table.scale_up_bytes_per_s, origin)
    if scale_up:
        topology = table.scale_up_topology or scale_up.topology
        scale_up = replace(scale_up, topology=topology)
    return {
        "host_link": host,
        "scale_up": scale_up,
        "scale_up_max_devices": table.scale_up_max_devices
        or (scale_up.max_devices if scale_up else None),
        "scale_out": interconnect(table.scale_out) if table.scale_out else None,
        "scale_out_ports_per_node": table.scale_out_ports_per_node,
        "devices_per_node": table.devices_per_node,
        "devices_per_node_options": table.devices_per_node_options,
    }


def _provenance(
    file: DeviceFile, limits: LimitsFile | None, path: Path
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Join the origins and sources of the generation and of the device; the device's win."""
    own = set(file.unit.known())
    origins: dict[str, str] = {}
    sources: dict[str, tuple[str, ...]] = {}
    if limits:
        origins = {f: o for f, o in limits.origins.items() if f not in own}
        sources = {f: _spelt_out(s, path) for f, s in limits.sources.items() if f not in own}
    origins |= {_RENAMED.get(f, f): o for f, o in file.origins.items()}
    sources |= {_RENAMED.get(f, f): _spelt_out(s, path) for f, s in file.sources.items()}
    return origins, sources


def _check_known(path: Path, found: Device, fields: tuple[str, ...]) -> None:
    """Refuse an origin or a source of a figure that the file does not have."""
    other = {"host_lanes", "price_date"}
    for field in fields:
        try:
            present = field in other or found.origin(field) is not None
        except UnknownNameError as error:
            raise CatalogueError(f"{path.name}: unknown field '{field}'.", error.why) from error
        if not present:
            raise CatalogueError(f"{path.name}: '{field}' has a source or origin but no value.")


def _one_of_package(found: Device, parts: int) -> Device:
    """Return what PyTorch calls one device of a package that holds several."""
    if parts == 1:
        return found
    changes: dict[str, Any] = {}
    for field in _SHARED_OUT:
        value = getattr(found, field)
        if value is not None:
            changes[field] = value // parts if isinstance(value, int) else value / parts
    for field in ("scale_up_max_devices", "devices_per_node"):
        value = getattr(found, field)
        changes[field] = value * parts if value else value
    if found.scale_up and found.scale_up.bandwidth_bytes_per_s:
        share = found.scale_up.bandwidth_bytes_per_s / parts
        changes["scale_up"] = found.scale_up.with_bandwidth(share, "estimated")
    if found.host_link and found.host_link.bandwidth_bytes_per_s:
        share = found.host_link.bandwidth_bytes_per_s / parts
        changes["host_link"] = found.host_link.with_bandwidth(share, "estimated")
    return replace(
        found,
        name=f"{found.name}, one of {parts}",
        peaks=tuple((rate, value / parts) for rate, value in found.peaks),
        devices_per_node_options=tuple(n * parts for n in found.devices_per_node_options),
        **changes,
    )
