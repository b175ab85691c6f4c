"""Temperature of each device against the limits that the driver states, and against its like.

Source: NVIDIA, NVML API Reference Guide (nvmlDeviceGetTemperatureThreshold: slowdown, shutdown,
memory maximum).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_NEAR_C = 4.0
"""Nearer than this to the limit a device soon slows down."""

_HOTTER_C, _WARM_C = 15.0, 60.0
"""So much above its like, and warm at all: a device whose cooling is worse."""

_BY = "NVML: nvmlDeviceGetTemperature (nvidia-smi -q -d TEMPERATURE)"
_FIX = Words(
    "Look at fans, air flow, dust and the room; set the fans of the server to full.",
    "检查风扇、风道、灰尘和机房温度；把服务器风扇调到最高。",
)


@check("temperature", "health", "Temperature of chip and memory against their limits")
def temperature(machine: Machine) -> Iterable[Finding]:
    """Compare each device with its limits, then with the others."""
    devices = nvidia_devices(machine)
    found = [f for d in devices for f in _limits(d)]
    found += _hotter(devices)
    if not found:
        found += _well(devices)
    return found


def _limits(device: NvidiaDevice) -> Iterable[Finding]:
    for part, now_key, limit_keys in (
        (Words("chip", "芯片"), "gpu_c", ("slowdown_c", "gpu_max_c")),
        (Words("memory", "显存"), "memory_c", ("memory_max_c",)),
    ):
        now = device.number("temperature", now_key)
        limits = [v for k in limit_keys if (v := device.number("temperature", k))]
        if now is None or not now or not limits:
            continue
        limit = min(limits)
        if now < limit - _NEAR_C:
            continue
        name, over = gpus([device.index]), now >= limit
        yield Finding(
            "temperature", "warning",
            Words(
                f"{name.en} is {'at' if over else 'close to'} its temperature limit.",
                f"{name.zh} 温度{'达到' if over else '接近'}上限。",
            ),
            Words(
                f"{part.en}: {now:.0f} °C, slows down from {limit:.0f} °C.",
                f"{part.zh}：{now:.0f} °C，{limit:.0f} °C 起降频。",
            ),
            Words(
                "The clock falls to stay below it, and the step with it.",
                "为保持低于上限，频率会下降，训练步随之变慢。",
            ),
            _FIX, ("nvidia-smi -q -d TEMPERATURE,PERFORMANCE",), _BY, device.index,
            {"temperature_c": now, "limit_c": limit},
        )  # fmt: skip


def _hotter(devices: Sequence[NvidiaDevice]) -> Iterable[Finding]:
    told = {d.index: t for d in devices if (t := d.number("temperature", "gpu_c"))}
    if len(told) < 3:
        return
    usual = median(told.values())
    for device in devices:
        now = told.get(device.index)
        load = device.number("utilization", "gpu_percent") or 0
        same = all(
            abs((d.number("utilization", "gpu_percent") or 0) - load) < 30 for d in devices
        )  # fmt: skip
        if now is None or now < _WARM_C or now - usual < _HOTTER_C or not same:
            continue
        name = gpus([device.index])
        yield Finding(
            "temperature", "note",
            Words(
                f"{name.en} is {now - usual:.0f} °C hotter than its like.",
                f"{name.zh} 比同类高 {now - usual:.0f} °C。",
            ),
            Words(
                f"{now:.0f} °C; half of the devices are below {usual:.0f} °C at the same load.",
                f"{now:.0f} °C；相同负载下半数设备低于 {usual:.0f} °C。",
            ),
            Words("It will be the first to slow down.", "它将最先降频。"),
            _FIX, (), _BY, device.index, {"temperature_c": now, "median_c": usual},
        )  # fmt: skip


def _well(devices: Sequence[NvidiaDevice]) -> Iterable[Finding]:
    told = {d.index: t for d in devices if (t := d.number("temperature", "gpu_c"))}
    if not told:
        return
    low, high, names = min(told.values()), max(told.values()), gpus(told)
    said = f"{low:.0f} °C" if low == high else f"{low:.0f}-{high:.0f} °C"
    yield Finding(
        "temperature", "ok", Words("Temperatures are fine.", "温度正常。"),
        Words(f"{names.en}: {said}.", f"{names.zh}：{said}。"), known_by=_BY,
        values={"highest_c": high},
    )  # fmt: skip
