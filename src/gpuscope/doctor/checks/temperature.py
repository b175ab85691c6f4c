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
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text

_NEAR_C = 4.0
"""Nearer than this to the limit a device soon slows down."""

_HOTTER_C, _WARM_C = 15.0, 60.0
"""So much above its like, and warm at all: a device whose cooling is worse."""

_BY = "NVML: nvmlDeviceGetTemperature (nvidia-smi -q -d TEMPERATURE)"
_FIX = Text("Look at fans, air flow, dust and the room; set the fans of the server to full.")


@check("temperature", "health", Text("Temperature of chip and memory against their limits"))
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
        (Text("chip"), "gpu_c", ("slowdown_c", "gpu_max_c")),
        (Text("memory"), "memory_c", ("memory_max_c",)),
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
            "temperature",
            "warning",
            Text("{name} is at its temperature limit.", name=name)
            if over
            else Text("{name} is close to its temperature limit.", name=name),
            Text(
                "{part}: {now} °C, slows down from {limit} °C.",
                part=part,
                now=Number(now, ".0f"),
                limit=Number(limit, ".0f"),
            ),
            Text("The clock falls to stay below it, and the step with it."),
            _FIX,
            ("nvidia-smi -q -d TEMPERATURE,PERFORMANCE",),
            _BY,
            device.index,
            {"temperature_c": now, "limit_c": limit},
        )


def _hotter(devices: Sequence[NvidiaDevice]) -> Iterable[Finding]:
    known = {d.index: t for d in devices if (t := d.number("temperature", "gpu_c"))}
    if len(known) < 3:
        return
    usual = median(known.values())
    for device in devices:
        now = known.get(device.index)
        load = device.number("utilization", "gpu_percent") or 0
        same = all(abs((d.number("utilization", "gpu_percent") or 0) - load) < 30 for d in devices)
        if now is None or now < _WARM_C or now - usual < _HOTTER_C or not same:
            continue
        name = gpus([device.index])
        yield Finding(
            "temperature",
            "note",
            Text(
                "{name} is {now} °C hotter than its like.",
                name=name,
                now=Number(now - usual, ".0f"),
            ),
            Text(
                "{now} °C; half of the devices are below {usual} °C at the same load.",
                now=Number(now, ".0f"),
                usual=Number(usual, ".0f"),
            ),
            Text("It will be the first to slow down."),
            _FIX,
            (),
            _BY,
            device.index,
            {"temperature_c": now, "median_c": usual},
        )


def _well(devices: Sequence[NvidiaDevice]) -> Iterable[Finding]:
    known = {d.index: t for d in devices if (t := d.number("temperature", "gpu_c"))}
    if not known:
        return
    low, high, names = min(known.values()), max(known.values()), gpus(known)
    said = f"{low:.0f} °C" if low == high else f"{low:.0f}-{high:.0f} °C"
    yield Finding(
        "temperature",
        "ok",
        Text("Temperatures are fine."),
        Text("{names}: {said}.", names=names, said=said),
        known_by=_BY,
        values={"highest_c": high},
    )
