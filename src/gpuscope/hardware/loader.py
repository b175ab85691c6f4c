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

from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.errors import CatalogueError, UnknownNameError
from gpuscope.hardware.device import Device
from gpuscope.hardware.interconnect import Interconnect
from gpuscope.hardware.names import CATALOGUE, device_ids, interconnect_ids, resolve

if TYPE_CHECKING:
    from gpuscope.hardware.schema import DeviceFile, LimitsFile, SourcesFile, Table

    Model = TypeVar("Model", bound=Table)

_LARGEST_BYTES = 4 << 20
"""A device's constants, all kinds of kernels together, are a tenth of it."""

_LONG_INTEGER = re.compile(rb"0[xob][0-9a-fA-F_]{17}")
"""Perhaps one that Python cannot write as a decimal: such a file is read with care."""

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
    "id",
    "name",
    "vendor",
    "architecture",
    "compute_capability",
    "launch_year",
    "process",
    "pytorch_device",
    "granularity",
    "confidence",
    "software_stack",
)

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
        raise UnknownNameError(Text("interconnect"), name, interconnect_ids())
    from gpuscope.hardware.schema import InterconnectFile

    path = CATALOGUE / "interconnects" / f"{name}.toml"
    found = read_file(path, InterconnectFile)
    fields = found.figures(without={"used_by"})
    origin = found.bandwidth_origin or _origin_by(found.sources)
    return Interconnect(
        **{**fields, "sources": spelt_out(found.sources, path), "bandwidth_origin": origin}
    )


def interconnects() -> tuple[Interconnect, ...]:
    """Return every interconnect of the catalogue, by identifier."""
    return tuple(interconnect(name) for name in interconnect_ids())


def read_file(path: Path, model: type[Model]) -> Model:
    """Read and validate one catalogue file.

    Raises:
        CatalogueError: missing, not TOML, or a field that does not validate.
    """
    import msgspec

    content = toml_of(path)
    try:
        found = msgspec.convert(content, model)
    except msgspec.ValidationError as error:
        field, reason = _refused(str(error), content)
        raise CatalogueError(
            Text("{path}: field '{field}' does not validate.", path=path.name, field=field),
            f"{reason}.",
            Text("Correct it in {path}.", path=path),
        ) from error
    file_id = getattr(found, "id", path.stem)
    if file_id != path.stem:
        raise CatalogueError(
            Text(
                "{path}: its id '{file_id}' is not the name of the file.",
                path=path.name,
                file_id=file_id,
            )
        )
    return found


def toml_of(path: Path) -> dict[str, Any]:
    """Read a TOML file, which may be anybody's.

    Raises:
        CatalogueError: missing, too large, or not TOML: not UTF-8 either, or nested too deep.
    """
    try:
        with path.open("rb") as file:  # what never ends says that it has no bytes at all
            raw = file.read(_LARGEST_BYTES + 1)
        if len(raw) > _LARGEST_BYTES:
            raise CatalogueError(
                Text("{path}: too large for TOML.", path=path.name),
                Text("It may have {most}.", most=Bytes(_LARGEST_BYTES)),
            )
        if _LONG_INTEGER.search(raw):
            from gpuscope.outside.plain import toml_of as checked

            return checked(raw)
        return tomllib.loads(raw.decode("utf-8").replace("\r\n", "\n"))
    except OSError as error:
        raise CatalogueError(
            Text("{path}: cannot be read.", path=path.name), str(error.strerror or error)
        ) from error
    except (ValueError, RecursionError) as error:  # of TOML's grammar, of UTF-8, of numbers
        raise CatalogueError(
            Text("{path}: not valid TOML.", path=path.name), str(error)[:200]
        ) from error


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
    return ".".join(path) or Text("(the whole file)"), reason


@lru_cache(maxsize=1)
def _sources_file() -> SourcesFile:
    from gpuscope.hardware.schema import SourcesFile

    return read_file(CATALOGUE / "sources.toml", SourcesFile)


def _sources() -> dict[str, str]:
    return _sources_file().sources


def _origin_by(ids: tuple[str, ...]) -> str:
    """Where a figure comes from, by who states it, unless its file says otherwise.

    "datasheet" where the maker itself does (or the device, when asked), "estimated" where it is
    arithmetic alone, "secondary source" where only others tell. A source in a file's own words is
    taken as the maker's.
    """
    known = _sources_file()
    if any(" " in source or source in known.first_hand for source in ids):
        return "datasheet"
    return "estimated" if ids and set(ids) <= set(known.derived) else "secondary source"


def spelt_out(ids: tuple[str, ...], path: Path) -> tuple[str, ...]:
    """Spell out source identifiers; text with a space in it is a source in its own words."""
    unknown = [i for i in ids if " " not in i and i not in _sources()]
    if unknown:
        raise CatalogueError(
            Text(
                "{path}: source '{unknown}' is not in sources.toml.",
                path=path.name,
                unknown=unknown[0],
            ),
            "",
            Text("Add it there, or write the source out in words."),
        )
    return tuple(_sources().get(i, i) for i in ids)


@cache
def _limits(name: str) -> LimitsFile:
    from gpuscope.hardware.schema import LimitsFile

    return read_file(CATALOGUE / "limits" / f"{name}.toml", LimitsFile)


@cache
def _device_by_id(device_id: str) -> Device:
    whole, colon, part = device_id.partition(":")
    if colon:
        from gpuscope.hardware.shares import share_named, share_of
        from gpuscope.hardware.slices import slice_of

        share = share_named(part)
        of_whole = _device_by_id(whole)
        return slice_of(of_whole, part) if share is None else share_of(of_whole, share)
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
        **file.price.figures(),
    }
    rates = file.compute.peak_flops_per_s.known()
    figures = {_RENAMED.get(name, name): value for name, value in tables.items()}
    return {**figures, "peaks": tuple(rates.items())}


def _links(file: DeviceFile) -> dict[str, Any]:
    table = file.links
    host = interconnect(table.host).with_lanes(table.host_lanes) if table.host else None
    scale_up = interconnect(table.scale_up) if table.scale_up else None
    if scale_up and table.scale_up_bytes_per_s:
        stated = file.sources.get("scale_up_bytes_per_s", ())
        origin = file.origins.get("scale_up_bytes_per_s", _origin_by(stated))
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
        stated = {f: s for f, s in limits.sources.items() if f not in own}
        origins = _origins(stated, {f: o for f, o in limits.origins.items() if f not in own})
        sources = {f: spelt_out(s, path) for f, s in stated.items()}
    for field, origin in _origins(file.sources, file.origins).items():
        origins[_RENAMED.get(field, field)] = origin
    sources |= {_RENAMED.get(f, f): spelt_out(s, path) for f, s in file.sources.items()}
    return origins, sources


def _origins(sources: Mapping[str, tuple[str, ...]], stated: Mapping[str, str]) -> dict[str, str]:
    """Origins as the file states them, and of other figures by their sources."""
    return {**{field: _origin_by(ids) for field, ids in sources.items()}, **stated}


def _check_known(path: Path, found: Device, fields: tuple[str, ...]) -> None:
    """Refuse an origin or a source of a figure that the file does not have."""
    other = {"host_lanes"}
    for field in fields:
        try:
            present = field in other or found.has(field)
        except UnknownNameError as error:
            raise CatalogueError(
                Text("{path}: unknown field '{field}'.", path=path.name, field=field), error.why
            ) from error
        if not present:
            raise CatalogueError(
                Text(
                    "{path}: '{field}' has a source or origin but no value.",
                    path=path.name,
                    field=field,
                )
            )


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
        package_devices=parts,
        name=f"{found.name}, one of {parts}",
        peaks=tuple((rate, value / parts) for rate, value in found.peaks),
        devices_per_node_options=tuple(n * parts for n in found.devices_per_node_options),
        **changes,
    )
