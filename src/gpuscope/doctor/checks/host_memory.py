"""Memory of the host that is left, and swapping.

Source: Linux kernel, Documentation/filesystems/proc (meminfo: MemAvailable, SwapTotal, SwapFree).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text

_LITTLE_SHARE = 0.05
_LITTLE_BYTES = 2 << 30
_SWAPPED_SHARE = 0.25


@check("host_memory", "settings", Text("Memory of the host that is left, and swapping"))
def host_memory(machine: Machine) -> Iterable[Finding]:
    """Read /proc/meminfo; limits of containers are the check "resource_limits"."""
    known = {
        name: int(size) * 1024
        for name, size in re.findall(
            r"^(\w+):\s+(\d+) kB", machine.text("/proc/meminfo") or "", re.M
        )
    }
    total, free = known.get("MemTotal"), known.get("MemAvailable")
    if not total or free is None:
        return
    swap = known.get("SwapTotal", 0)
    used = swap - known.get("SwapFree", swap)
    values: dict[str, float | int | str | bool | None] = {
        "total_bytes": total,
        "available_bytes": free,
        "swap_bytes": swap,
        "swap_used_bytes": used,
    }
    gib = 2**30
    said = Text(
        "{free} of {total} GiB free; {used} of {swap} GiB swapped.",
        free=Number(free / gib, ".1f"),
        total=Number(total / gib, ".1f"),
        used=Number(used / gib, ".1f"),
        swap=Number(swap / gib, ".1f"),
    )
    little = free < min(_LITTLE_BYTES, _LITTLE_SHARE * total)
    if little or (swap and used > _SWAPPED_SHARE * total):
        yield Finding(
            "host_memory",
            "warning",
            Text("The host has little memory left.") if little else Text("The host swaps."),
            said,
            Text("Input workers slow down or are killed; pinned memory cannot be had."),
            Text("Use fewer workers, or end what else holds memory."),
            ("ps aux --sort=-rss | head",),
            "/proc/meminfo",
            None,
            values,
        )
        return
    yield Finding(
        "host_memory",
        "ok",
        Text("The host has memory left."),
        said,
        known_by="/proc/meminfo",
        values=values,
    )
