"""What the catalogue knows of a run's device, for the diagram of its parts and flows."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.errors import UnknownNameError
from gpuscope.hardware import device
from gpuscope.run import Run


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Figures of a device; None where the catalogue does not know.

    Attributes:
        name: in words.
        compute_units: SMs, CUs or cores.
        l2_bytes, memory_bytes: sizes.
        memory_bandwidth_bytes_per_s: of device memory.
    """

    name: str
    compute_units: int | None
    l2_bytes: int | None
    memory_bytes: int
    memory_bandwidth_bytes_per_s: float


def device_facts(run: Run) -> DeviceFacts | None:
    """Return the facts of a run's device; None where it is not in the catalogue."""
    try:
        found = device(run.device_id) if run.device_id else None
    except UnknownNameError:
        found = None
    if found is None:
        return None
    return DeviceFacts(
        found.name, found.compute_units, found.l2_bytes, found.memory_bytes,
        found.memory_bandwidth_bytes_per_s,
    )  # fmt: skip
