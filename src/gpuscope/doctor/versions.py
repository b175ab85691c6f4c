"""Versions, and which CUDA runs on which NVIDIA driver.

Sources: NVIDIA, "CUDA Toolkit Release Notes", tables "CUDA Toolkit and Minimum Required Driver
Version for CUDA Minor Version Compatibility" and "CUDA Toolkit and Corresponding Driver Versions"
(Linux x86_64); NVIDIA, "CUDA Compatibility", "Minor Version Compatibility" and "Forward
Compatibility".
"""

from __future__ import annotations

import re

Version = tuple[int, ...]

SOURCE = "NVIDIA, CUDA Compatibility; CUDA Toolkit Release Notes (Linux x86_64)"

LEAST_DRIVER: dict[int, str] = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""Oldest driver that runs programs of any minor version of a CUDA major version."""

SHIPPED_DRIVER: dict[str, str] = {
    "11.8": "520.61.05",
    "12.0": "525.60.13",
    "12.1": "530.30.02",
    "12.2": "535.54.03",
    "12.3": "545.23.06",
    "12.4": "550.54.14",
    "12.5": "555.42.02",
    "12.6": "560.28.03",
    "12.8": "570.26",
    "12.9": "575.51.03",
    "13.0": "580.65.06",
    "13.1": "590.44.01",
    "13.2": "595.45.04",
    "13.3": "610.43.02",
}
"""Driver that came with a toolkit: from it on everything of that CUDA version works."""


def version(text: object) -> Version:
    """Return the numbers at the beginning of a version; () if there are none.

    "2.11.0+cu130" gives (2, 11, 0), "13.0" gives (13, 0).
    """
    found = re.match(r"\s*v?(\d+(?:\.\d+)*)", text) if isinstance(text, str) else None
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()


def least_driver(cuda: str) -> str | None:
    """Return the oldest driver for programs built with a CUDA version; None if not known."""
    numbers = version(cuda)
    return LEAST_DRIVER.get(numbers[0]) if numbers else None


def shipped_driver(cuda: str) -> str | None:
    """Return the driver with which all of a CUDA version works; None if not known."""
    return SHIPPED_DRIVER.get(".".join(map(str, version(cuda)[:2])))
