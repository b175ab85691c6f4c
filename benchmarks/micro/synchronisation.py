"""Which calls make the host wait for the device: `python benchmarks/micro/synchronisation.py`.

Each call is made behind a device that sleeps for 20 ms. A call that returns in microseconds does
not wait; one that takes milliseconds does. Prints one line of JSON per call.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

BUSY_CYCLES = int(20e-3 * 1.7e9)


def host_us(call: Callable[[], Any]) -> float:
    """Median host time of `call` behind a busy device, microseconds."""
    call()
    times = []
    for _ in range(7):
        torch.cuda.synchronize()
        torch.cuda._sleep(BUSY_CYCLES)
        started = time.perf_counter()
        result = call()
        times.append((time.perf_counter() - started) * 1e6)
        torch.cuda.synchronize()
        del result
    return statistics.median(times)


def copies() -> dict[str, Callable[[], Any]]:
    calls: dict[str, Callable[[], Any]] = {}
    for size in (256, 32768, 65536, 131072, 1 << 20, 1 << 24):
        pageable = torch.empty(size, dtype=torch.uint8)
        pinned = pageable.pin_memory()
        device = torch.empty(size, dtype=torch.uint8, device="cuda")
        calls |= {
            f"pageable.to(cuda, non_blocking) {size}": lambda p=pageable: p.to(
                "cuda", non_blocking=True
            ),
            f"pageable.to(cuda) {size}": lambda p=pageable: p.to("cuda"),
            f"pinned.to(cuda, non_blocking) {size}": lambda p=pinned: p.to(
                "cuda", non_blocking=True
            ),
            f"pinned.to(cuda) {size}": lambda p=pinned: p.to("cuda"),
            f"pageable.copy_(device, non_blocking) {size}": lambda p=pageable, d=device: p.copy_(
                d, non_blocking=True
            ),
            f"device.to(cpu, non_blocking) {size}": lambda d=device: d.to("cpu", non_blocking=True),
        }
    return calls


def operators() -> dict[str, Callable[[], Any]]:
    x = torch.randn(1000, 1000, device="cuda")
    mask = x > 0
    one = torch.ones((), device="cuda")
    counts = torch.ones(5, dtype=torch.long, device="cuda")
    return {
        "x[mask]": lambda: x[mask],
        "x[mask] = 0.0": lambda: x.__setitem__(mask, 0.0),
        "x[mask] = device scalar": lambda: x.__setitem__(mask, one),
        "x[host index]": lambda: x[torch.tensor([1, 2])],
        "masked_scatter": lambda: x.masked_scatter(mask, x),
        "repeat_interleave(counts)": lambda: torch.repeat_interleave(x[:5], counts, dim=0),
        "repeat_interleave(counts, output_size)": lambda: torch.repeat_interleave(
            x[:5], counts, dim=0, output_size=5
        ),
        "bincount": lambda: torch.bincount(counts),
        "multinomial": lambda: torch.multinomial(x[0].abs(), 2),
        "one_hot(classes)": lambda: torch.nn.functional.one_hot(counts, 4),
        "one_hot()": lambda: torch.nn.functional.one_hot(counts),
        "torch.tensor(list, device)": lambda: torch.tensor([1.0, 2.0], device="cuda"),
        "torch.tensor(number, device)": lambda: torch.tensor(1.0, device="cuda"),
        "tolist": lambda: x[0].tolist(),
        "equal": lambda: torch.equal(x, x + 0),
        "randperm": lambda: torch.randperm(50, device="cuda"),
        "unique": lambda: torch.unique(x[0]),
        "histc": lambda: torch.histc(x[0], 10),
        "topk": lambda: x.topk(3),
        "sort": lambda: x.sort(),
        "median": lambda: x.median(),
        "linalg.svd": lambda: torch.linalg.svd(x[:4, :4]),
        "linalg.inv": lambda: torch.linalg.inv(x[:4, :4]),
        "linalg.cholesky": lambda: torch.linalg.cholesky(torch.eye(4, device="cuda")),
        "torch.full((3,), device scalar)": lambda: torch.full((3,), one, device="cuda"),
        "x.item()": lambda: one.item(),
        "stream.synchronize": lambda: torch.cuda.current_stream().synchronize(),
    }


def main() -> None:
    for name, call in (copies() | operators()).items():
        try:
            took = host_us(call)
            print(json.dumps({"call": name, "host_us": round(took, 1), "waits": took > 5000}))
        except RuntimeError as error:
            print(json.dumps({"call": name, "error": str(error)[:80]}))
    pinned = torch.empty(4, device="cuda").to("cpu", non_blocking=True).is_pinned()
    print(json.dumps({"call": "device.to(cpu, non_blocking) result is pinned", "is": pinned}))
    x = torch.randn(1000, 1000, device="cuda")
    mask, one = x > 0, torch.ones((), device="cuda")
    for name, call in {
        "x[mask]": lambda: x[mask],
        "x[mask] = 0.0": lambda: x.__setitem__(mask, 0.0),
        "x[mask] = device scalar": lambda: x.__setitem__(mask, one),
        "x[host index]": lambda: x[torch.tensor([1, 2])],
    }.items():
        with torch.profiler.profile() as profile:
            call()
            torch.cuda.synchronize()
        events = sorted(profile.events(), key=lambda e: e.time_range.start)
        print(json.dumps({"call": name, "events": [e.name[:60] for e in events]}))


if __name__ == "__main__":
    main()
