"""Which accelerators a machine has, by what its PCI bus, device files and libraries tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import nvidia_devices

VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
"""PCI vendor numbers (pci.ids)."""

_COMPUTE_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
"""PCI classes: VGA controller, 3D controller, other display, processing accelerator."""

PCI = "/sys/bus/pci/devices"


@dataclass(frozen=True, slots=True)
class Card:
    """A graphics card or accelerator on the PCI bus.

    Attributes:
        address: on the bus ("0000:1a:00.0").
        vendor: "nvidia", "amd", "intel".
        driver: kernel driver that holds it; "" if none does.
        display: it is a VGA controller, which may be one inside the processor.
    """

    address: str
    vendor: str
    driver: str
    display: bool


def cards(machine: Machine, vendor: str = "") -> tuple[Card, ...]:
    """Return the cards on the PCI bus, of one vendor or of all."""
    found = []
    for address in machine.entries(PCI) or ():
        root = f"{PCI}/{address}"
        kind = (machine.text(f"{root}/class") or "").strip()
        if not kind.startswith(_COMPUTE_CLASSES):
            continue
        name = VENDORS.get((machine.text(f"{root}/vendor") or "").strip())
        if name is None or (vendor and name != vendor):
            continue
        driver = (machine.target(f"{root}/driver") or "").rpartition("/")[2]
        found.append(Card(address, name, driver, kind.startswith("0x0300")))
    return tuple(found)


def nvml(machine: Machine) -> Mapping[str, Any] | None:
    """Return what NVML told; None if it could not be used."""
    found = machine.probe("nvml")
    return None if found is None or found.get("error") else found


def nvidia_present(machine: Machine) -> bool:
    """Whether anything says that there is an NVIDIA device, or should be one."""
    return bool(
        cards(machine, "nvidia")
        or nvidia_devices(machine)
        or machine.text("/proc/driver/nvidia/version")
        or "nvidiactl" in (machine.entries("/dev") or ())
    )


def amd_present(machine: Machine) -> bool:
    """Whether there is an AMD device for computing.

    A VGA controller counts only where the compute interface is there too and PyTorch is built for
    it: it may be the processor's own graphics.
    """
    if any(not card.display for card in cards(machine, "amd")):
        return True
    built = (torch_facts(machine) or {}).get("hip_build")
    return bool(built) and "kfd" in (machine.entries("/dev") or ())


def torch_facts(machine: Machine) -> Mapping[str, Any] | None:
    """Return what the PyTorch probe told; None if it failed or PyTorch cannot be imported."""
    found = machine.probe("torch_libraries")
    return None if found is None or not found.get("installed") or found.get("error") else found


def counted(names: list[str]) -> str:
    """Return "8× NVIDIA H200" for equal names; several sorts joined by commas."""
    return ", ".join(f"{n}× {name}" for name, n in Counter(names).items())
