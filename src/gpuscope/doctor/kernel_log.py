"""The kernel's log as checks read it, and the PCI addresses in its lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import nvidia_devices
from gpuscope.doctor.topology.pci import normal_bus


@dataclass(frozen=True, slots=True)
class KernelLog:
    """Lines that concern devices.

    Attributes:
        source: the command or file that gave them; None if none may be read.
        lines: oldest first.
        error: why there are none.
    """

    source: str | None
    lines: tuple[str, ...]
    error: str = ""

    def matching(self, pattern: str) -> list[str]:
        """Return the lines in which a pattern occurs, upper and lower case alike."""
        wanted = re.compile(pattern, re.IGNORECASE)
        return [line for line in self.lines if wanted.search(line)]


def kernel_log(machine: Machine) -> KernelLog:
    """Return the log of a machine."""
    facts = machine.probe("kernel_log")
    if not facts:
        return KernelLog(None, (), machine.probe_error("kernel_log") or "not read")
    return KernelLog(
        facts.get("source"), tuple(facts.get("lines") or ()), str(facts.get("error") or "")
    )


def device_at(machine: Machine, bus: str) -> int | None:
    """Return the NVIDIA device at an address as the driver logs it; None if none is there.

    Xid lines name only the slot ("0000:c6:00"), not the function.
    """
    slot = normal_bus(bus if "." in bus else f"{bus}.0").rpartition(".")[0]
    for device in nvidia_devices(machine):
        if normal_bus(str(device.get("bus_id") or "")).rpartition(".")[0] == slot:
            return device.index
    return None
