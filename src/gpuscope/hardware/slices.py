"""Slices of a device (NVIDIA's Multi-Instance GPU), each a device of its own.

A slice has its own multiprocessors, its share of the memory with the channels to it, of the L2 and
of the copy engines. It has no link to other slices or devices, and shares clock, power and the link
to the host with its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import CatalogueError
from gpuscope.hardware.device import Device
from gpuscope.hardware.names import CATALOGUE

_EIGHTHS = 8
"""Parts into which memory and L2 are split."""

_SEVENTHS = 7
"""Parts into which multiprocessors are split ("3g" has three)."""


def slice_of(device: Device, name: str) -> Device:
    """Return a slice of a device.

    Args:
        device: the whole.
        name: of one of its profiles: "1g.18gb".

    Multiprocessors, memory and copy engines are the driver's figures; bandwidth and L2 are the
    guide's eighths of the whole. Rates follow the multiprocessors. Power and price are shares, by
    multiprocessors and by how many such slices a device holds: estimated.

    Raises:
        CatalogueError: its file does not validate, or is not this device's.
    """
    from gpuscope.hardware.loader import read_file, spelt_out
    from gpuscope.hardware.schema import SlicesFile

    path = CATALOGUE / "slices" / f"{device.id}.toml"
    file = read_file(path, SlicesFile)
    part = next((each for each in file.slice if each.name == name), None)
    if part is None or file.device != device.id or device.compute_units is None:
        raise CatalogueError(
            Text("{path}: there is no slice '{name}' of this device.", path=path.name, name=name)
        )
    sources = spelt_out(file.sources, path)
    units, of_memory = part.compute_units / device.compute_units, part.memory_eighths / _EIGHTHS
    rated = ("compute_units", "memory_bytes", "memory_bandwidth_bytes_per_s", "copy_engines")
    shared: dict[str, Any] = {
        "tdp_w": device.tdp_w and device.tdp_w * units,
        "idle_power_w": device.idle_power_w and device.idle_power_w / part.most,
        "price_usd_per_hour": device.price_usd_per_hour and device.price_usd_per_hour / part.most,
    }
    changed = {
        **dict.fromkeys((*rated, "l2_bytes"), "datasheet"),
        **{field: "estimated" for field, value in shared.items() if value},
        "memory_usable_bytes": "estimated",
        **{rate: "estimated" for rate, _ in device.peaks},
    }
    kept = tuple((field, of) for field, of in device.sources if field not in changed)
    alone = unlinked(device)
    return replace(
        alone,
        id=f"{device.id}:{name}",
        name=f"{device.name}, slice {name}",
        granularity="one GPU instance with all of its compute: one PyTorch device",
        compute_units=part.compute_units,
        memory_bytes=part.memory_bytes,
        memory_usable_bytes=part.memory_bytes,
        memory_bandwidth_bytes_per_s=device.memory_bandwidth_bytes_per_s * of_memory,
        l2_bytes=device.l2_bytes and device.l2_bytes * part.l2_eighths // _EIGHTHS,
        copy_engines=part.copy_engines,
        peaks=tuple((rate, value * units) for rate, value in device.peaks),
        **shared,
        notes=(*device.notes, *_NOTES),
        origins=tuple((dict(alone.origins) | changed).items()),
        sources=(*kept, *((field, sources) for field in (*rated, "l2_bytes"))),
    )


@dataclass(frozen=True, slots=True)
class Profile:
    """A sort of slice, and where it may lie; or one of equal shares (`gpuscope.hardware.shares`).

    Attributes:
        name: "1g.18gb".
        eighths: of the memory; of a share a fraction.
        starts: eighths at which one may begin, as `nvidia-smi mig -lgipp` prints them.
        share: of a device: the larger of its sevenths of compute and its eighths of memory.
        of: how many equal shares a device is in; 0 of a slice. They lie beside their like alone.
    """

    name: str
    eighths: int | Fraction
    starts: tuple[int, ...]
    share: float
    of: int = 0


def profiles_of(device_id: str) -> tuple[Profile, ...]:
    """The slices that a device can be split into, the smallest first; () for any other device."""
    from gpuscope.hardware.loader import read_file
    from gpuscope.hardware.schema import SlicesFile

    path = CATALOGUE / "slices" / f"{device_id}.toml"
    if not path.is_file():
        return ()
    found = []
    for each in read_file(path, SlicesFile).slice:
        size = each.memory_eighths
        share = max(int(each.name.partition("g")[0]) / _SEVENTHS, size / _EIGHTHS)
        starts = tuple(n * size for n in range(each.most))
        found.append(Profile(each.name, size, starts, share))
    return tuple(found)


def unlinked(device: Device) -> Device:
    """Return a device without what a part of it has not: links, a place in a node, a list price."""
    gone = dict.fromkeys(
        (
            "scale_up",
            "scale_up_max_devices",
            "scale_out",
            "scale_out_ports_per_node",
            "devices_per_node",
            "price_list_usd",
        )
    )
    lost = {*gone, "scale_up_bandwidth_bytes_per_s"}
    fields: dict[str, Any] = {**gone, "devices_per_node_options": ()}
    origins = tuple((field, value) for field, value in device.origins if field not in lost)
    return replace(device, **fields, origins=origins)


_NOTES = (
    "A slice shares clock, power and the link to the host with its neighbours: at work they slow"
    " copies, and the clock under a power limit. Predictions are for neighbours that rest.",
)
