"""How much of a device's memory a case needs: the figures that changes of memory are judged by."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.advice.types import Case
from gpuscope.analysis.wording import byte_rate, percent, seconds, size
from gpuscope.explain.types import Words

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
    def words(self) -> Words:
        """ "The peak is 31 % of the device's memory (44.0 GiB of 140 GiB)"; no full stop."""
        if self.share is None:
            return Words("The peak of memory is not known", "显存峰值未知")
        peak, capacity = size(self.peak_bytes or 0), size(self.capacity_bytes or 0)
        return Words(
            f"The peak is {percent(self.share)} of the device's memory ({peak} of {capacity})",
            f"峰值占设备显存的 {percent(self.share)}（{peak}，共 {capacity}）",
        )


def room(case: Case) -> Room:
    """Peak and capacity of a case."""
    memory = case.analysis.memory
    capacity = memory.capacity_bytes if memory is not None else None
    return Room(case.run.peak_memory_bytes, capacity or case.device.memory_usable_bytes)


def category_bytes(case: Case, category: str) -> int | None:
    """Bytes of one category at the peak; None where the peak has no categories."""
    memory = case.analysis.memory
    if memory is None or not memory.at_peak:
        return None
    return memory.at_peak.get(category, 0)


def crossing(
    case: Case, held: int | None, begin: str = "", begin_zh: str = ""
) -> Words | None:
    """What it takes that bytes cross the host link twice a step; None where it is not known.

    Args:
        case: the workload.
        held: bytes; None where they are not known.
        begin, begin_zh: said before the amount.
    """
    rate = case.device.host_link_bandwidth_bytes_per_s
    if not held or not rate:
        return None
    took = seconds(2 * held / rate)
    return Words(
        f"{begin}{size(held)} cross the link ({byte_rate(rate)}) twice: {took} a step; the host"
        " locks as much memory.",
        f"{begin_zh}{size(held)} 要两次经过链路（{byte_rate(rate)}）：每步 {took}；"
        "主机要锁定同样多的内存。",
    )
