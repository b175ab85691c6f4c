"""Memory of the host that is left, and swapping."""

from __future__ import annotations

import pytest
from checked import findings, sorts

from gpuscope.doctor.machine import Recording

GIB_KB = 1 << 20


def host(total: int, free: float, swap: int = 0, swap_free: int | None = None) -> Recording:
    left = swap if swap_free is None else swap_free
    lines = {"MemTotal": total, "MemAvailable": free, "SwapTotal": swap, "SwapFree": left}
    text = "".join(f"{name}:    {int(size * GIB_KB)} kB\n" for name, size in lines.items())
    return Recording(texts={"/proc/meminfo": text})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (host(64, 40), ["ok"]),
        (host(2000, 3), ["ok"]),
        (host(2000, 1.9), ["warning"]),
        (host(16, 0.7), ["warning"]),
        (host(16, 8, swap=16, swap_free=14), ["ok"]),
        (host(16, 8, swap=16, swap_free=10), ["warning"]),
        (Recording(), []),
        (Recording(texts={"/proc/meminfo": "MemTotal: 5 kB\n"}), []),
    ],
)
def test_each_state_has_its_severity(found: Recording, expected: list[str]) -> None:
    assert sorts(findings("host_memory", found)) == expected


def test_amounts_are_in_bytes() -> None:
    only = findings("host_memory", host(64, 40, swap=8, swap_free=6))[0]
    assert only.values == {
        "total_bytes": 64 << 30,
        "available_bytes": 40 << 30,
        "swap_bytes": 8 << 30,
        "swap_used_bytes": 2 << 30,
    }
