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
from gpuscope.explain.types import Words

_BY = "NVML: nvmlDeviceGetFanSpeed_v2"
_HOT_C, _FULL_PERCENT = 70, 95


@check("fans", "health", "Fans of devices that have their own")
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
            "fans", "ok", Words("Fans are fine.", "风扇正常。"),
            Words(f"{names.en}: up to {top:.0f} %.", f"{names.zh}：最高 {top:.0f}%。"),
            known_by=_BY, values={"fastest_fan_percent": top},
        )  # fmt: skip


def _device(device: NvidiaDevice, speeds: list[float]) -> Iterable[Finding]:
    warm = device.number("temperature", "gpu_c")
    if warm is None or warm < _HOT_C:
        return
    name = gpus([device.index])
    at = Words(f"At {warm:.0f} °C.", f"当前 {warm:.0f} °C。")
    values: dict[str, float | int | str | bool | None] = {
        "slowest_fan_percent": min(speeds), "temperature_c": warm,
    }  # fmt: skip
    if min(speeds) == 0:
        yield Finding(
            "fans", "warning",
            Words(f"A fan of {name.en} stands still.", f"{name.zh} 有风扇停转。"), at,
            Words("It will slow down from the heat.", "将因过热而降频。"),
            Words("Look at the fan and its setting.", "检查风扇及其设置。"),
            ("nvidia-smi -q | grep -i fan",), _BY, device.index, values,
        )  # fmt: skip
    elif min(speeds) >= _FULL_PERCENT:
        yield Finding(
            "fans", "note",
            Words(f"The fans of {name.en} are at full speed.", f"{name.zh} 的风扇已全速。"), at,
            Words("There is nothing left for a warmer day.", "没有余量应对更高室温。"),
            known_by=_BY, device=device.index, values=values,
        )  # fmt: skip
