"""Sustained power, energy and SM clock under steady loads, through NVML's energy counter."""

from __future__ import annotations

import csv
import gzip
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

COLUMNS = (
    "load", "seconds", "energy_j", "mean_w", "sm_mhz_mean", "sm_mhz_min", "mem_mhz", "temp_c",
    "calls", "work_per_call", "work_unit", "work_per_s", "joule_per_work",
)  # fmt: skip
BATCH_S = 0.1


def _loads() -> dict[str, tuple[Callable[[], object], float, str]]:
    bf = [torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    zero = torch.zeros_like(bf[0])
    f32 = [torch.randn(8192, 8192, device="cuda") for _ in range(2)]
    big = torch.randn(1 << 29, device="cuda")
    other = torch.empty_like(big)
    small = torch.randn(1 << 20, device="cuda")
    thin = torch.randn(16, 8192, device="cuda", dtype=torch.bfloat16)
    q = torch.randn(4, 32, 4096, 128, device="cuda", dtype=torch.bfloat16)
    flops = 2.0 * 8192**3
    out = torch.empty_like(bf[0])
    f8 = [b.to(torch.float8_e4m3fn) for b in bf]
    one = torch.ones((), device="cuda")
    h16 = [b.to(torch.float16) for b in bf]
    signs = bf[0].sign()
    mid = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    image = torch.randn(32, 256, 64, 64, device="cuda", dtype=torch.bfloat16)
    image = image.contiguous(memory_format=torch.channels_last)
    filters = torch.randn(256, 256, 3, 3, device="cuda", dtype=torch.bfloat16)
    filters = filters.contiguous(memory_format=torch.channels_last)
    l2 = [torch.randn(1 << 21, device="cuda") for _ in range(2)]

    def fp32(tf32: bool) -> Callable[[], object]:
        def call() -> object:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            return torch.mm(f32[0], f32[1])

        return call

    return {
        "matmul_bf16": (lambda: torch.mm(bf[0], bf[1], out=out), flops, "flop"),
        "matmul_bf16_zeros": (lambda: torch.mm(zero, zero, out=out), flops, "flop"),
        "copy_hbm": (lambda: other.copy_(big), 2.0 * big.nbytes, "byte"),
        "read_hbm": (lambda: big.sum(), float(big.nbytes), "byte"),
        "write_hbm": (lambda: other.fill_(1.0), float(big.nbytes), "byte"),
        "matmul_fp32": (fp32(False), flops, "flop"),
        "matmul_tf32": (fp32(True), flops, "flop"),
        "matmul_fp8": (
            lambda: torch._scaled_mm(f8[0], f8[1].t(), one, one, out_dtype=torch.bfloat16),
            flops, "flop",
        ),
        "matmul_thin_bf16": (lambda: torch.mm(thin, bf[1]), float(bf[1].nbytes), "byte"),
        "sdpa_causal_bf16": (
            lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True),
            2.0 * 4 * 32 * 4096 * 4096 * 128, "flop",
        ),
        "matmul_fp16": (lambda: torch.mm(h16[0], h16[1]), flops, "flop"),
        "matmul_bf16_signs": (lambda: torch.mm(signs, signs, out=out), flops, "flop"),
        "matmul_bf16_2048": (lambda: torch.mm(mid, mid), 2.0 * 2048**3, "flop"),
        "conv3x3_bf16_nhwc": (
            lambda: torch.nn.functional.conv2d(image, filters, padding=1),
            2.0 * 32 * 256 * 256 * 9 * 64 * 64, "flop",
        ),
        "layer_norm_bf16": (
            lambda: torch.nn.functional.layer_norm(bf[0], (8192,)), 2.0 * bf[0].nbytes, "byte",
        ),
        "copy_l2_16mib": (lambda: l2[1].copy_(l2[0]), 2.0 * l2[0].nbytes, "byte"),
        "gelu_l2": (lambda: torch.nn.functional.gelu(small), 2.0 * small.nbytes, "byte"),
        "tiny_kernels": (lambda: thin.add_(1.0), 1.0, "call"),
    }  # fmt: skip


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

    def temperature(self) -> int:
        return int(self.nvml.nvmlDeviceGetTemperature(self.handle, 0))


def _steady(
    meter: _Meter,
    name: str,
    call: Callable[[], object] | None,
    work: float,
    unit: str,
    seconds: float,
    duty: float = 1.0,
) -> list[object]:
    """Run the load for ``seconds`` after 0.5 s of warm-up; read energy, clocks and rate.

    With ``duty`` below 1 the device rests for the rest of every tenth of a second.
    """
    per_batch = 1
    if call is not None:
        call()
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(10):
            call()
        torch.cuda.synchronize()
        per_batch = max(1, int(duty * BATCH_S / ((time.perf_counter() - began) / 10)))
    for phase_s in (0.5, seconds):
        clocks, calls, energy, began = [], 0, meter.energy_j(), time.perf_counter()
        while time.perf_counter() - began < phase_s:
            if call is None:
                time.sleep(BATCH_S)
            else:
                for _ in range(per_batch):
                    call()
                calls += per_batch
            clocks.append(meter.clock(meter.nvml.NVML_CLOCK_SM))
            torch.cuda.synchronize()
            if duty < 1.0:
                time.sleep((1.0 - duty) * BATCH_S)
        took = time.perf_counter() - began
        used = meter.energy_j() - energy
    rate = calls * work / took
    return [
        name, round(took, 3), round(used, 2), round(used / took, 1),
        round(sum(clocks) / len(clocks)), min(clocks), meter.clock(meter.nvml.NVML_CLOCK_MEM),
        meter.temperature(), calls, work, unit, f"{rate:.5g}",
        f"{used / (calls * work):.5g}" if calls else "",
    ]  # fmt: skip


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


def run(out: Path, seconds: float = 2.0) -> None:
    """Write ``power.csv.gz`` (columns: :data:`COLUMNS`) and ``power_ramp.csv.gz``."""
    meter = _Meter()
    rows = [_steady(meter, "idle_with_context", None, 1.0, "", 1.5)]
    with gzip.open(out / "power_ramp.csv.gz", "wt", newline="") as stream:
        csv.writer(stream).writerows([("reading", "seconds", "value"), *_ramp(meter)])
    with gzip.open(out / "power.csv.gz", "wt", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        writer.writerows(rows)
        loads = _loads()
        for name, (call, work, unit) in loads.items():
            writer.writerow(_steady(meter, name, call, work, unit, seconds))
            stream.flush()
        for name in ("matmul_bf16", "copy_hbm"):
            for duty in (0.25, 0.5, 0.75):
                call, work, unit = loads[name]
                label = f"{name}_duty_{duty}"
                writer.writerow(_steady(meter, label, call, work, unit, seconds, duty))
        del loads, call
        torch.cuda.empty_cache()
        time.sleep(1.0)
        writer.writerow(_steady(meter, "idle_after_load", None, 1.0, "", 1.5))
