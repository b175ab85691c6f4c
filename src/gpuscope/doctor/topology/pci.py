"""PCI devices as Linux shows them in sysfs: where each sits, and how its link runs.

Files: Linux kernel, Documentation/ABI/testing/sysfs-bus-pci (current_link_speed, max_link_speed,
current_link_width, max_link_width, numa_node).
"""

from __future__ import annotations

import re

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.topology.types import PCIE_GENERATIONS, PcieLink, Way

DEVICES = "/sys/bus/pci/devices"

_ADDRESS = re.compile(r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")


def normal_bus(bus: str) -> str:
    """Return a PCI address as the kernel writes it.

    NVML's "00000000:18:00.0" and "18:00.0" become "0000:18:00.0".
    """
    parts = bus.strip().lower().split(":")
    if len(parts) == 2:
        parts = ["0000", *parts]
    if len(parts) != 3:
        return bus.strip().lower()
    return f"{parts[0][-4:].rjust(4, '0')}:{parts[1]}:{parts[2]}"


def addresses(machine: Machine) -> tuple[str, ...]:
    """Return the addresses of all PCI devices; none where they cannot be seen."""
    return machine.entries(DEVICES) or ()


def number(machine: Machine, bus: str, name: str) -> int | None:
    """Return a number of a device's folder ("class", "vendor", "numa_node"); None without one."""
    text = (machine.text(f"{DEVICES}/{bus}/{name}") or "").strip()
    try:
        return int(text, 0)
    except ValueError:
        return None


def numa_node(machine: Machine, bus: str) -> int | None:
    """Return the memory node that a device is near; None if the firmware does not say."""
    node = number(machine, bus, "numa_node")
    return None if node is None or node < 0 else node


def link(machine: Machine, bus: str) -> PcieLink:
    """Return how a device's link runs; empty where it has none."""
    width = number(machine, bus, "current_link_width")
    most = number(machine, bus, "max_link_width")
    return PcieLink(
        _generation(machine, bus, "current_link_speed"),
        width or None,
        _generation(machine, bus, "max_link_speed"),
        # 255 and 0 stand for "unknown" on virtual ports.
        most if most and most <= 32 else None,
    )


def _generation(machine: Machine, bus: str, name: str) -> int | None:
    text = machine.text(f"{DEVICES}/{bus}/{name}") or ""
    try:
        return PCIE_GENERATIONS.get(float(text.split()[0]))
    except (IndexError, ValueError):
        return None  # "Unknown", or no link


def path(machine: Machine, bus: str) -> tuple[str, ...]:
    """Return what lies between the processor and a device: the host bridge ("pci0000:10"), the
    bridges, the device itself; () where it cannot be seen."""
    return steps(machine.target(f"{DEVICES}/{bus}") or "")


def steps(target: str) -> tuple[str, ...]:
    """Return the PCI steps of a resolved sysfs path."""
    parts = target.split("/")
    return tuple(p for p in parts if _ADDRESS.match(p) or re.match(r"^pci[0-9a-f]{4,8}:", p))


def way(
    a: tuple[str, ...], b: tuple[str, ...], a_node: int | None, b_node: int | None
) -> Way | None:
    """Return what two devices share, as `nvidia-smi topo -m` names it; None if unknown.

    Args:
        a, b: their paths.
        a_node, b_node: their memory nodes.
    """
    if not a or not b:
        return None
    shared = 0
    while shared < min(len(a), len(b)) and a[shared] == b[shared]:
        shared += 1
    if shared > 1:  # below one root port
        longest = max(len(a), len(b)) - shared - 1
        return "PIX" if longest <= 1 else "PXB"
    if shared == 1:
        return "PHB"
    if a_node is None or b_node is None:
        return None
    return "NODE" if a_node == b_node else "SYS"
