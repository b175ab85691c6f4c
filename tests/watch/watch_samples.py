"""Samples of devices at work, made by hand: H200s as they behave."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from gpuscope.measurement.sensors.types import ProcessUse, Reading, SensorInfo
from gpuscope.watch.types import Activity, DeviceSample, Sample

INFO = SensorInfo("nvidia", 0, "NVIDIA H200", "GPU-000-abc", "580.1")
READING = Reading(
    0.0,
    power_w=600.0,
    energy_j=1e6,
    sm_clock_hz=1.98e9,
    memory_clock_hz=3.2e9,
    temperature_c=55.0,
    utilisation=1.0,
    memory_used_bytes=100 * 2**30,
    memory_total_bytes=141 * 2**30,
    throttle_reasons=(),
    power_limit_w=700.0,
    pcie_generation=5,
    pcie_width=16,
    processes=(ProcessUse(4242, "python train.py", 99 * 2**30),),
)
ACTIVITY = Activity(0.9, 0.4, 0.6, 0.4, 2e9, 1e7, 0.0, 0.0)
START_S = 1_760_000_000.0


def device(index: int = 0, activity: Activity | None = ACTIVITY, **reading: object) -> DeviceSample:
    """A device; by default busy with matrix products."""
    info = replace(INFO, index=index, uuid=f"GPU-{index}{index}{index}-abc")
    return DeviceSample(info, replace(READING, **reading), activity or Activity())


def samples(
    make: Callable[[int], DeviceSample | Sequence[DeviceSample]],
    n: int = 11,
    *,
    host: str = "node1",
    host_cpu: float | None = 0.1,
    step_s: float = 1.0,
) -> list[Sample]:
    """One sample a second; `make` gives the device (or devices) of each."""
    found = []
    for number in range(n):
        made = make(number)
        devices = (made,) if isinstance(made, DeviceSample) else tuple(made)
        at = number * step_s
        devices = tuple(replace(d, reading=replace(d.reading, time_s=at)) for d in devices)
        found.append(Sample(START_S + at, host, devices, host_cpu))
    return found


def input_bound(number: int) -> DeviceSample:
    """Works in bursts while input crosses PCIe: 31 % of the time."""
    on = number % 3 == 0
    busy = 0.85 if on else 0.05
    activity = Activity(busy * 0.9, 0.3, busy * 0.5, busy * 0.4, 2.1e10, 1e7, 0.0, 0.0)
    return device(0, activity, utilisation=busy, power_w=380.0 if on else 160.0)


def training(number: int, index: int = 0) -> DeviceSample:
    """Matrix products at full speed, a little uneven."""
    wave = 0.03 * math.sin(number / 3 + index)
    activity = Activity(0.92 + wave, 0.4, 0.62 + wave, 0.45, 1e8, 1e7, 9e10, 9e10)
    return device(index, activity, utilisation=0.99, power_w=640 + 300 * wave)


def decoding(number: int) -> DeviceSample:
    """One token at a time, launched from Python."""
    activity = Activity(0.16, 0.08, 0.02, 0.12, 5e6, 2e6, 0.0, 0.0)
    return device(0, activity, utilisation=0.62 + 0.02 * (number % 2), power_w=190.0)


def idle(number: int, index: int = 0) -> DeviceSample:
    """Nothing runs; one process holds memory."""
    return device(
        index,
        Activity(0, 0, 0, 0, 1e5, 1e5, 0, 0),
        utilisation=0.0,
        power_w=75.0,
        pcie_generation=1,
    )
