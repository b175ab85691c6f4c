"""Copies between host and device, pinned and pageable, and within the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from harness import Point

SIZES = tuple(1024 * 4**i for i in range(11))
"""1 KiB to 1 GiB."""


def _make(kind: str, size: int) -> Callable[[str], Callable[[], object]]:
    def make(device: str) -> Callable[[], object]:
        here = torch.randint(0, 255, (size,), dtype=torch.uint8, device=device)
        if kind == "d2d":
            there = torch.empty_like(here)
            return lambda: there.copy_(here)
        host = torch.full((size,), 7, dtype=torch.uint8)
        if kind.endswith("pinned") and device != "meta":
            host = host.pin_memory()
        if kind.startswith("h2d"):
            return lambda: here.copy_(host, non_blocking=True)
        return lambda: host.copy_(here, non_blocking=kind.endswith("pinned"))

    return make


def points(quick: bool) -> Iterator[Point]:
    """All copy points, hot only (the cache plays no part in link speed)."""
    for kind in ("h2d_pinned", "d2h_pinned", "h2d_pageable", "d2h_pageable", "d2d"):
        for size in SIZES[::4] if quick else SIZES:
            yield Point("transfer", {"op": kind, "bytes": size}, _make(kind, size), ("hot",), 6)
