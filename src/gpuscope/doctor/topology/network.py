"""Network cards: RDMA devices and interfaces, as Linux shows them.

Files: Linux kernel, Documentation/ABI/stable/sysfs-class-infiniband (ports/<n>/rate, state,
link_layer) and testing/sysfs-class-net (speed in Mbit/s, operstate).
"""

from __future__ import annotations

import re

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.topology import pci
from gpuscope.doctor.topology.types import NetworkCard, PcieLink

_RDMA = "/sys/class/infiniband"
_NET = "/sys/class/net"


def cards(machine: Machine) -> tuple[NetworkCard, ...]:
    """Return the RDMA ports, then the interfaces of cards that have no RDMA."""
    rdma = [_rdma(machine, name) for name in machine.entries(_RDMA) or ()]
    taken = {card.bus for card in rdma if card.bus}
    plain = [
        card
        for name in machine.entries(_NET) or ()
        if name != "lo" and (card := _interface(machine, name)) and card.bus not in taken
    ]
    return tuple(rdma + plain)


def _rdma(machine: Machine, name: str) -> NetworkCard:
    base = f"{_RDMA}/{name}"
    port = f"{base}/ports/1"
    layer = (machine.text(f"{port}/link_layer") or "").strip()
    state = machine.text(f"{port}/state")
    rate = re.match(r"([\d.]+) Gb/sec", machine.text(f"{port}/rate") or "")
    up = None if state is None else "ACTIVE" in state
    kind = {"InfiniBand": "infiniband", "Ethernet": "roce"}.get(layer, "rdma")
    if "efa" in name or name.startswith("rdmap"):
        kind = "efa"
    bits_per_s = float(rate[1]) * 1e9 if rate and up else None
    bus, path = _place(machine, base)
    return NetworkCard(
        name,
        kind,
        bus,
        pci.numa_node(machine, bus) if bus else None,
        path,
        bits_per_s / 8 if bits_per_s else None,
        up,
        pci.link(machine, bus) if bus else PcieLink(),
    )


def _interface(machine: Machine, name: str) -> NetworkCard | None:
    base = f"{_NET}/{name}"
    bus, path = _place(machine, base)
    state = (machine.text(f"{base}/operstate") or "").strip()
    if not bus and not (name.startswith(("eth", "en", "wl")) and state):
        return None  # bridges, tunnels, containers' pairs
    try:
        megabits = int((machine.text(f"{base}/speed") or "").strip())
    except ValueError:
        megabits = -1
    up = {"up": True, "down": False}.get(state)
    return NetworkCard(
        name,
        "ethernet",
        bus,
        pci.numa_node(machine, bus) if bus else None,
        path,
        megabits * 1e6 / 8 if megabits > 0 else None,
        up,
        pci.link(machine, bus) if bus else PcieLink(),
        virtual=not bus,
    )


def _place(machine: Machine, base: str) -> tuple[str, tuple[str, ...]]:
    """The PCI address of a class device, and the path to it; empty for a virtual one."""
    path = pci.steps(machine.target(f"{base}/device") or "")
    bus = path[-1] if path and not path[-1].startswith("pci") else ""
    return bus, path if bus else ()
