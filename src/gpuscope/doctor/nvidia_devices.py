"""NVIDIA devices as the probe `nvml` told them, and how findings name devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuscope.doctor.machine import Machine
from gpuscope.document.text import Text, plural


@dataclass(frozen=True, slots=True)
class NvidiaDevice:
    """One device.

    Attributes:
        index: as NVML counts.
        name: as the driver says it.
        facts: all that the probe told of it; see `gpuscope.doctor.probes.nvml`.
    """

    index: int
    name: str
    facts: Mapping[str, Any]

    def get(self, *path: str) -> Any:
        """Return a fact by its path ("power", "limit_w"); None where it was not told."""
        found: Any = self.facts
        for key in path:
            if not isinstance(found, Mapping):
                return None
            found = found.get(key)
        return found

    def number(self, *path: str) -> float | None:
        """Return a fact that is a number; None where it was not told."""
        found = self.get(*path)
        return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def nvidia_devices(machine: Machine) -> tuple[NvidiaDevice, ...]:
    """Return the devices that NVML can reach; none without a driver."""
    facts = machine.probe("nvml") or {}
    return tuple(
        NvidiaDevice(int(each["index"]), str(each.get("name") or "GPU"), each)
        for each in facts.get("devices") or ()
        if not each.get("lost")
    )


def is_geforce(device: NvidiaDevice) -> bool:
    """Whether it is a consumer's device: its limits are the product's, not faults."""
    return "geforce" in device.name.lower() or "titan" in device.name.lower()


def spans(numbers: Iterable[int]) -> str:
    """Return numbers in short: 0, 1, 2, 5 becomes "0-2, 5"."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in found)


def gpus(indices: Iterable[int]) -> Text:
    """Return "GPU 3" or "GPUs 0-7"."""
    known = set(indices)
    return plural("GPU {which}", "GPUs {which}", len(known), which=spans(known))
