"""What it costs the host to wait, to copy small things, and to get memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from gpuscope.measurement.bench.host_timing import HostTimer


def measure_waits(timer: HostTimer) -> None:
    """Round trips that end with the host waiting for the device."""
    one = torch.randn(1, device=timer.device)
    big = torch.randn(1000, device=timer.device)

    def launch_and_wait() -> None:
        one.add_(1.0)
        timer.wait()

    calls: dict[str, Callable[[], object]] = {
        "item": one.item,
        "synchronize_idle": timer.wait,
        "cpu_1000": big.cpu,
        "bool": lambda: bool(one > 0),
        "nonzero": lambda: (big > 0).nonzero(),
        "isnan_any_item": lambda: big.isnan().any().item(),
        "tiny_kernel_then_synchronize": launch_and_wait,
    }
    for name, call in calls.items():
        timer.calls("sync", name, "round_trip", call)


def measure_small_copies(timer: HostTimer) -> None:
    """Host time of copies between host and device, by size."""
    d = timer.device
    for size in (1024, 1 << 16, 1 << 20):
        host = torch.ones(size, dtype=torch.uint8)
        pinned = host.pin_memory() if timer.on_gpu else host
        there = torch.empty(size, dtype=torch.uint8, device=d)
        calls: dict[str, Callable[[], object]] = {
            "h2d_pageable": partial(there.copy_, host),
            "h2d_pinned_blocking": partial(there.copy_, pinned),
            "h2d_pinned_non_blocking": partial(there.copy_, pinned, non_blocking=True),
            "d2h_pageable": there.cpu,
            "to_device_pageable": partial(host.to, d),
        }
        if timer.on_gpu:
            calls["pin_memory"] = host.pin_memory
        for name, call in calls.items():
            timer.calls("copy", name, str(size), call, 10)


def measure_allocation(timer: HostTimer) -> None:
    """Memory from PyTorch's cache, and from the driver where the cache is empty."""
    d = timer.device
    for size in (1 << 12, 1 << 20, 1 << 25):
        timer.calls(
            "memory", "cached", str(size), partial(torch.empty, size, dtype=torch.uint8, device=d)
        )
    if not timer.on_gpu:
        return
    for size in (1 << 20, 1 << 25, 1 << 30):
        if torch.cuda.mem_get_info(d)[0] < 2 * size:
            continue

        def fresh(n: int = size) -> Callable[[], object]:
            torch.cuda.empty_cache()
            return lambda: torch.empty(n, dtype=torch.uint8, device=d)

        def freed(n: int = size) -> Callable[[], object]:
            torch.cuda.empty_cache()
            torch.empty(n, dtype=torch.uint8, device=d)
            return torch.cuda.empty_cache

        timer.once("memory", "cuda_malloc", str(size), fresh, 1, 7)
        timer.once("memory", "cuda_free", str(size), freed, 1, 7)
