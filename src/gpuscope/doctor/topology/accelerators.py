"""Devices that one computes on: NVIDIA's as NVML tells them, all others as PCI shows them."""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.doctor.accelerators import Card, cards
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, nvidia_devices
from gpuscope.doctor.topology import pci
from gpuscope.doctor.topology.smi_matrix import SmiMatrix
from gpuscope.doctor.topology.types import Accelerator, NvLinks, PcieLink
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import Device, device, interconnect

_DEEPEST_OWN = 3
"""Steps of the path to graphics inside a processor: host bridge, at most one port, itself."""

_NAMES = {"nvidia": "NVIDIA GPU", "amd": "AMD GPU", "intel": "Intel GPU"}


def accelerators(machine: Machine, matrix: SmiMatrix) -> tuple[Accelerator, ...]:
    """Return all devices: NVIDIA's first, in NVML's order; then the others by address."""
    given = nvidia_devices(machine)
    found = [_told(machine, each, matrix) for each in given]
    known = {each.bus for each in found}
    numbers: dict[str, int] = {"nvidia": len(found)}
    for card in cards(machine):
        if card.address not in known:
            index = numbers.get(card.vendor, 0)
            numbers[card.vendor] = index + 1
            found.append(_seen(machine, card, index))
    return tuple(found)


def catalogue_device(name: str) -> Device | None:
    """Return the catalogue's device of a driver's name; None if it is not in it."""
    try:
        return device(name)
    except GpuscopeError:
        return None


def _told(machine: Machine, each: NvidiaDevice, matrix: SmiMatrix) -> Accelerator:
    bus = pci.normal_bus(str(each.get("bus_id") or ""))
    memory: Sequence[int] = each.get("memory_affinity") or ()
    node = pci.numa_node(machine, bus)
    if node is None:
        node = memory[0] if len(memory) == 1 else matrix.numa.get(f"GPU{each.index}")
    link = PcieLink(
        _whole(each, "generation"),
        _whole(each, "width"),
        _whole(each, "max_generation"),
        _whole(each, "max_width"),
    )
    if link.width is None:
        link = pci.link(machine, bus)
    return Accelerator(
        each.index, "nvidia", each.name, bus, node, pci.path(machine, bus), link, nvlinks(each)
    )


def _whole(each: NvidiaDevice, name: str) -> int | None:
    number = each.number("pcie", name)
    return int(number) if number else None


def nvlinks(each: NvidiaDevice) -> NvLinks | None:
    """Return the NVLink ports of a device; None where it has none."""
    ports: Sequence[dict[str, object]] = each.get("nvlinks") or ()
    known = catalogue_device(each.name)
    expected = None
    if known is not None and known.scale_up is not None and known.vendor.lower() == "nvidia":
        # Parts with fewer links state a lower rate; one link of the generation is the same.
        one = interconnect(known.scale_up.id).bandwidth_per_link_bytes_per_s
        whole = known.scale_up.bandwidth_bytes_per_s
        expected = round(whole / one) if one and whole else None
    if not ports:
        return None
    up = [port for port in ports if port.get("active")]
    versions = {port.get("version") for port in up or ports}
    version = versions.pop() if len(versions) == 1 else None
    return NvLinks(
        active=len(up),
        ports=len(ports),
        expected=expected,
        version=version if isinstance(version, int) else None,
        switched=any(port.get("remote_type") == "switch" for port in up),
        down=tuple(int(str(port["link"])) for port in ports if not port.get("active")),
        bytes_per_s=_rate(len(up), known),
    )


def _rate(active: int, known: Device | None) -> float | None:
    """By the generation of the catalogue's device: NVML's version numbers differ from it."""
    if known is None or known.scale_up is None:
        return None
    one = interconnect(known.scale_up.id).bandwidth_per_link_bytes_per_s
    whole = known.scale_up.bandwidth_bytes_per_s
    if one is None or whole is None:
        return None
    return min(active * one, whole)  # consumer boards have more ports, each of a lower rate


def _seen(machine: Machine, card: Card, index: int) -> Accelerator:
    path = pci.path(machine, card.address)
    # A processor's own graphics sits on the root bus, or behind a port of the processor, and
    # shares the host's memory; boards bring a switch of their own.
    integrated = card.display and card.vendor != "nvidia" and 2 <= len(path) <= _DEEPEST_OWN
    return Accelerator(
        index,
        card.vendor,
        _NAMES[card.vendor],
        card.address,
        pci.numa_node(machine, card.address),
        path,
        _slot(machine, card, path),
        integrated=integrated,
    )


def _slot(machine: Machine, card: Card, path: tuple[str, ...]) -> PcieLink:
    """The link of the slot: on AMD's and Intel's boards that above the switch of the board.

    What the device itself states is then the link inside the board (on Intel's even 2.5 GT/s x1).
    """
    own = pci.link(machine, card.address)
    if card.vendor == "nvidia" or len(path) < 5:
        return own
    above = pci.link(machine, path[-3])
    if above.bytes_per_s is None or card.vendor == "intel":
        return above if above.width is not None else own
    return above if own.bytes_per_s is None or above.bytes_per_s <= own.bytes_per_s else own
