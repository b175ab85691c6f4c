"""Fans of devices that have their own.

Source: NVIDIA, NVML API Reference Guide (nvmlDeviceGetFanSpeed_v2: share of the highest speed that
is asked for).
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text

_BY = "NVML: nvmlDeviceGetFanSpeed_v2"
_HOT_C, _FULL_PERCENT = 70, 95


@check("fans", "health", Text("Fans of devices that have their own"))
def fans(machine: Machine) -> Iterable[Finding]:
    """Say nothing of devices that the server's fans cool."""
    own = [
        (d, speeds)
        for d in nvidia_devices(machine)
        if (speeds := [s for s in d.get("fans") or () if s is not None])
    ]
    bad = [f for device, speeds in own for f in _device(device, speeds)]
    yield from bad
    if own and not bad:
        names = gpus(d.index for d, _ in own)
        top = max(max(speeds) for _, speeds in own)
        yield Finding(
            "fans",
            "ok",
            Text("Fans are fine."),
            Text("{names}: up to {top} %.", names=names, top=Number(top, ".0f")),
            known_by=_BY,
            values={"fastest_fan_percent": top},
        )


def _device(device: NvidiaDevice, speeds: list[float]) -> Iterable[Finding]:
    warm = device.number("temperature", "gpu_c")
    if warm is None or warm < _HOT_C:
        return
    name = gpus([device.index])
    at = Text("At {warm} °C.", warm=Number(warm, ".0f"))
    values: dict[str, float | int | str | bool | None] = {
        "slowest_fan_percent": min(speeds),
        "temperature_c": warm,
    }
    if min(speeds) == 0:
        yield Finding(
            "fans",
            "warning",
            Text("A fan of {name} stands still.", name=name),
            at,
            Text("It will slow down from the heat."),
            Text("Look at the fan and its setting."),
            ("nvidia-smi -q | grep -i fan",),
            _BY,
            device.index,
            values,
        )
    elif min(speeds) >= _FULL_PERCENT:
        yield Finding(
            "fans",
            "note",
            Text("The fans of {name} are at full speed.", name=name),
            at,
            Text("There is nothing left for a warmer day."),
            known_by=_BY,
            device=device.index,
            values=values,
        )
