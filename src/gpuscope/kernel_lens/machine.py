"""How a device's warps meet its memory: lanes, sectors, cache lines, banks."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import parse_target

_BEST_PRACTICES = (
    "NVIDIA, CUDA C++ Best Practices Guide: coalesced access to global memory (a warp's accesses "
    "become as many 32-byte transactions as needed); shared memory and memory banks."
)
_PROGRAMMING = (
    "NVIDIA, CUDA C++ Programming Guide, compute capabilities: shared memory has 32 banks of 4 "
    "bytes; lanes that read the same word do not conflict."
)
_WAVEFRONTS = (
    "NVIDIA developer forum, answers on wavefronts and sectors (Volta and later): one request per "
    "warp and access; 128-byte lines of four 32-byte sectors."
)
_ROCM = (
    "AMD, ROCm Compute Profiler documentation, performance model: vector L1 cache (lines of 64 "
    "bytes on CDNA2, of 128 on CDNA3), local data share (32 banks of 4 bytes)."
)
_CDNA_LINE_BYTES = {"CDNA2": 64, "CDNA3": 128}


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides how many transactions a warp's access takes.

    Attributes:
        name: the device.
        device_id: its name in the catalogue; "" if it is none of it.
        warp_size: lanes of a warp (of a wavefront on AMD).
        sector_bytes: smallest piece of global memory that is moved.
        line_bytes: cache line.
        banks, bank_bytes: shared memory is `banks` columns of words of `bank_bytes`.
        pairs_merge: whether wide accesses to shared memory join neighbours with one address.
        sources: manuals that say so, one line each.
    """

    name: str = "NVIDIA GPU"
    warp_size: int = 32
    sector_bytes: int = 32
    line_bytes: int = 128
    banks: int = 32
    bank_bytes: int = 4
    pairs_merge: bool = True
    device_id: str = ""
    sources: tuple[str, ...] = (_BEST_PRACTICES, _PROGRAMMING, _WAVEFRONTS)

    @property
    def bank_row_bytes(self) -> int:
        """Bytes that shared memory serves in one pass."""
        return self.banks * self.bank_bytes


def machine_of(on: str) -> Machine:
    """Return the memory rules of a device.

    Args:
        on: a device by name; of a cluster, one device of it.

    Raises:
        UnknownNameError: no such device.
        UnsupportedError: its memory rules are not known here (neither NVIDIA nor AMD
            CDNA2 or CDNA3).
    """
    device = parse_target(on).device
    if device.vendor == "NVIDIA" and device.warp_size is not None:
        return Machine(name=device.name, warp_size=device.warp_size, device_id=device.id)
    line = next((b for a, b in _CDNA_LINE_BYTES.items() if a in device.architecture), None)
    if line is not None and device.warp_size is not None:
        # CDNA moves whole lines between L1 and L2: there is no smaller sector to count.
        return Machine(
            device.name,
            device.warp_size,
            sector_bytes=line,
            line_bytes=line,
            pairs_merge=False,
            device_id=device.id,
            sources=(_ROCM,),
        )
    raise UnsupportedError(
        Text("The lens does not know how {device} groups memory accesses.", device=device.name),
        Text("It knows NVIDIA's GPUs and AMD's CDNA2 and CDNA3 accelerators."),
        Text("Try: --on h200, --on a100, --on mi300x"),
    )
