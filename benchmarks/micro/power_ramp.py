"""How power and clock settle: the first 1.6 s of a bf16 matmul load, from a cold start.

Steady loads are measured by `gpuscope bench --only power`.
"""

from __future__ import annotations

import csv
import gzip
import time
from pathlib import Path
from typing import Any

import torch


class _Meter:
    def __init__(self) -> None:
        import pynvml

        pynvml.nvmlInit()
        self.nvml: Any = pynvml
        self.handle: Any = pynvml.nvmlDeviceGetHandleByIndex(0)

    def energy_j(self) -> float:
        return float(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)) / 1000.0

    def clock(self, kind: int) -> int:
        return int(self.nvml.nvmlDeviceGetClockInfo(self.handle, kind))


def _ramp(meter: _Meter, seconds: float = 1.5) -> list[list[object]]:
    """A cold start of the bf16 matmul load: each call's rate, NVML's clock and energy, by time."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    torch.mm(a, b)
    torch.cuda.synchronize()
    time.sleep(2.0)
    count = int(seconds / 0.0015)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    rows: list[list[object]] = []
    began = time.perf_counter()
    marks[0].record()
    for i in range(count):
        torch.mm(a, b)
        marks[i + 1].record()
        if i % 4 == 3:
            marks[max(0, i - 8)].synchronize()
            now = time.perf_counter() - began
            rows.append(["sm_mhz", round(now, 5), meter.clock(meter.nvml.NVML_CLOCK_SM)])
            rows.append(["energy_j", round(now, 5), meter.energy_j()])
    torch.cuda.synchronize()
    for i in range(count):
        took_ms = marks[i].elapsed_time(marks[i + 1])
        rate = 2 * 8192**3 / took_ms / 1e9
        rows.append(
            ["tflop_per_s", round(marks[0].elapsed_time(marks[i]) / 1e3, 5), round(rate, 1)]
        )
    return rows


def run(out: Path) -> None:
    """Write ``power_ramp.csv.gz``."""
    with gzip.open(out / "power_ramp.csv.gz", "wt", newline="") as stream:
        csv.writer(stream).writerows([("reading", "seconds", "value"), *_ramp(_Meter())])
