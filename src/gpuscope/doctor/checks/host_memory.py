"""Memory of the host that is left, and swapping.

Source: Linux kernel, Documentation/filesystems/proc (meminfo: MemAvailable, SwapTotal, SwapFree).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_LITTLE_SHARE = 0.05
_LITTLE_BYTES = 2 << 30
_SWAPPED_SHARE = 0.25


@check("host_memory", "settings", "Memory of the host that is left, and swapping")
def host_memory(machine: Machine) -> Iterable[Finding]:
    """Read /proc/meminfo; limits of containers are the check "resource_limits"."""
    told = {
        name: int(size) * 1024
        for name, size in re.findall(
            r"^(\w+):\s+(\d+) kB", machine.text("/proc/meminfo") or "", re.M
        )
    }
    total, free = told.get("MemTotal"), told.get("MemAvailable")
    if not total or free is None:
        return
    swap = told.get("SwapTotal", 0)
    used = swap - told.get("SwapFree", swap)
    values: dict[str, float | int | str | bool | None] = {
        "total_bytes": total, "available_bytes": free, "swap_bytes": swap, "swap_used_bytes": used,
    }  # fmt: skip
    gib = 2**30
    said = Words(
        f"{free / gib:.1f} of {total / gib:.1f} GiB free; {used / gib:.1f} of {swap / gib:.1f} GiB "
        "swapped.",
        f"可用 {free / gib:.1f}/{total / gib:.1f} GiB；"
        f"已换出 {used / gib:.1f}/{swap / gib:.1f} GiB。",
    )  # fmt: skip
    little = free < min(_LITTLE_BYTES, _LITTLE_SHARE * total)
    if little or (swap and used > _SWAPPED_SHARE * total):
        yield Finding(
            "host_memory", "warning",
            Words("The host has little memory left.", "主机内存所剩不多。")
            if little
            else Words("The host swaps.", "主机正在使用交换区。"),
            said,
            Words(
                "Input workers slow down or are killed; pinned memory cannot be had.",
                "数据进程会变慢或被杀死；也无法分配锁页内存。",
            ),
            Words(
                "Use fewer workers, or end what else holds memory.",
                "减少 worker 数，或结束其他占用内存的程序。",
            ),
            ("ps aux --sort=-rss | head",), "/proc/meminfo", None, values,
        )  # fmt: skip
        return
    yield Finding(
        "host_memory", "ok", Words("The host has memory left.", "主机内存充足。"), said,
        known_by="/proc/meminfo", values=values,
    )  # fmt: skip
