"""PyTorch's message of memory that ran out, in its several versions, as figures.

Wording: pytorch/pytorch, c10/cuda/CUDACachingAllocator.cpp (versions 1.0 to 2.9).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = {
    "bytes": 1,
    "b": 1,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
    "kb": 2**10,
    "mb": 2**20,
    "gb": 2**30,
}
_SIZE = r"(\d+(?:\.\d+)?) ?(bytes|[KMGT]i?B|B)\b"

CONTEXT_BYTES = 600 * 2**20
"""Room that a CUDA context and its libraries take beside PyTorch's allocator, about."""


@dataclass(frozen=True, slots=True)
class MemoryMessage:
    """What the message says, in bytes; None where that version does not say it.

    Attributes:
        wanted: the request that found no room.
        capacity: of the device.
        free: on the device, at that moment.
        allocated: held by tensors of this process.
        reserved: held by PyTorch's allocator, `allocated` included.
        in_use: by this process, everything included.
        limit: PyTorch's own limit, where one was set.
        device: index.
    """

    wanted: int
    capacity: int | None = None
    free: int | None = None
    allocated: int | None = None
    reserved: int | None = None
    in_use: int | None = None
    limit: int | None = None
    device: int | None = None

    @property
    def unused(self) -> int | None:
        """Bytes that PyTorch holds and no tensor uses."""
        if self.reserved is None or self.allocated is None:
            return None
        return max(0, self.reserved - self.allocated)

    @property
    def others(self) -> int | None:
        """Bytes of other processes; None where the message does not tell them apart.

        Versions before 2.1 do not state what this process has in use: then it is what PyTorch
        holds and a context of the usual size.
        """
        if self.capacity is None or self.free is None:
            return None
        own = self.in_use
        if own is None and self.reserved is not None:
            own = self.reserved + CONTEXT_BYTES
        return None if own is None else max(0, self.capacity - self.free - own)


def read_memory_message(text: str) -> MemoryMessage | None:
    """Return the figures of the first such message in a text; None without one."""
    begin = re.search(rf"Tried to allocate {_SIZE}", text, re.IGNORECASE)
    if begin is None:
        return None
    # What belongs to this message: up to the next one of its kind, at most a few lines.
    rest = text[begin.start() : begin.start() + 1500]
    again = rest.find("Tried to allocate", 10)
    rest = rest if again < 0 else rest[:again]
    allocated = _first(
        rest, rf"{_SIZE} already allocated", rf"allocated memory {_SIZE} is allocated"
    )
    reserved = _first(rest, rf"{_SIZE} (?:cached|reserved in total)")
    unallocated = _first(rest, rf"{_SIZE} is reserved by PyTorch but unallocated")
    if reserved is None and unallocated is not None and allocated is not None:
        reserved = allocated + unallocated
    device = re.search(r"GPU (\d+)", rest)
    return MemoryMessage(
        wanted=_bytes(begin[1], begin[2]),
        capacity=_first(rest, rf"{_SIZE} total capacity", rf"total capaci?ty of {_SIZE}"),
        free=_first(rest, rf"{_SIZE} free", rf"of which {_SIZE} is free"),
        allocated=allocated,
        reserved=reserved,
        in_use=_first(rest, rf"this process has {_SIZE} memory in use"),
        limit=_first(rest, rf"{_SIZE} allowed"),
        device=int(device[1]) if device else None,
    )


def _first(text: str, *patterns: str) -> int | None:
    for pattern in patterns:
        found = re.search(pattern, text, re.IGNORECASE)
        if found:
            return _bytes(found[1], found[2])
    return None


def _bytes(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit.lower()])
