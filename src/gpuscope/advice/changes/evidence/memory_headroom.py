"""How much of a device's memory a case needs: the figures that changes of memory are judged by."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.advice.types import ChangeCase
from gpuscope.document.quantities import ByteRate, Bytes, Percent, Seconds
from gpuscope.document.text import Text, Value

__all__ = ["Room", "category_bytes", "crossing", "room"]


@dataclass(frozen=True, slots=True)
class Room:
    """Peak and capacity of the device in bytes, either None where it is not known."""

    peak_bytes: int | None
    capacity_bytes: int | None

    @property
    def share(self) -> float | None:
        """The peak as a share of the capacity; above 1 where it does not fit."""
        if self.peak_bytes is None or not self.capacity_bytes:
            return None
        return self.peak_bytes / self.capacity_bytes

    @property
    def words(self) -> Text:
        """ "The peak is 31 % of the device's memory (44.0 GiB of 140 GiB)"; no full stop."""
        if self.share is None:
            return Text("The peak of memory is not known")
        peak, capacity = Bytes(self.peak_bytes or 0), Bytes(self.capacity_bytes or 0)
        return Text(
            "The peak is {share} of the device's memory ({peak} of {capacity})",
            share=Percent(self.share),
            peak=peak,
            capacity=capacity,
        )


def room(case: ChangeCase) -> Room:
    """Peak and capacity of a case."""
    memory = case.analysis.memory
    capacity = memory.capacity_bytes if memory is not None else None
    return Room(case.run.peak_memory_bytes, capacity or case.device.memory_usable_bytes)


def category_bytes(case: ChangeCase, category: str) -> int | None:
    """Bytes of one category at the peak; None where the peak has no categories."""
    memory = case.analysis.memory
    if memory is None or not memory.at_peak:
        return None
    return memory.at_peak.get(category, 0)


def crossing(case: ChangeCase, held: int | None, at_most: bool = False) -> Text | None:
    """What it takes that bytes cross the host link twice a step; None where it is not known.

    Args:
        case: the workload.
        held: bytes; None where they are not known.
        at_most: fewer may cross.
    """
    rate = case.device.host_link_bandwidth_bytes_per_s
    if not held or not rate:
        return None
    values: dict[str, Value] = {
        "held": Bytes(held),
        "rate": ByteRate(rate),
        "time": Seconds(2 * held / rate),
    }
    if at_most:
        return Text(
            "Up to {held} cross the link ({rate}) twice: {time} a step; the host locks as much "
            "memory.",
            **values,
        )
    return Text(
        "{held} cross the link ({rate}) twice: {time} a step; the host locks as much memory.",
        **values,
    )
