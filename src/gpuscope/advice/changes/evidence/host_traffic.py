"""What a step copies from the host to the device, by kind of host memory."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.advice.types import ChangeCase
from gpuscope.program.types import Program

__all__ = ["TINY_BYTES", "HostTraffic", "host_traffic"]

TINY_BYTES = 1 << 20
"""Fewer bytes a step take less than 0.1 ms even from pageable memory: page-locking them cannot be
felt."""

_COPIES = frozenset({"aten::_to_copy", "aten::copy_"})


@dataclass(frozen=True, slots=True)
class HostTraffic:
    """Copies from host to device in one step.

    Attributes:
        count: how many.
        pageable_bytes, pinned_bytes: by kind of memory.
        waited_bytes: of copies that the host waits for; None where that is not known.
    """

    count: int
    pageable_bytes: int
    pinned_bytes: int
    waited_bytes: int | None = None

    @property
    def total_bytes(self) -> int:
        """Both kinds."""
        return self.pageable_bytes + self.pinned_bytes


def host_traffic(case: ChangeCase) -> HostTraffic:
    """Copies from host to device of a case: of its program, or of its recording."""
    if case.program is not None:
        return _of_program(case.program)
    found = [c for c in case.analysis.copies if c.direction == "host to device"]
    return HostTraffic(
        sum(c.count for c in found),
        sum(c.total_bytes or 0 for c in found if c.memory == "pageable"),
        sum(c.total_bytes or 0 for c in found if c.memory == "pinned"),
    )


def _of_program(program: Program) -> HostTraffic:
    count = pageable = pinned = waited = 0
    for op in program.ops:
        if op.name not in _COPIES or not op.inputs or not op.outputs:
            continue
        source = op.inputs[-1]
        if source.device != "host" or op.outputs[0].device != "device":
            continue
        count += op.repeat
        moved = source.nbytes * op.repeat
        if source.pinned:
            pinned += moved
        else:
            pageable += moved
        waited += moved if op.sync == "blocking_copy" else 0
    return HostTraffic(count, pageable, pinned, waited)
