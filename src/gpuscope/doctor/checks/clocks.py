"""Clocks that someone set below what the device ships with.

Source: NVIDIA, NVML API Reference Guide (nvmlDeviceGetApplicationsClock and its default;
clocks-event reason "applications clocks setting").
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_BY = "NVML: application clocks (nvidia-smi -q -d CLOCK)"
_BUSY = 90
_SLOW = 0.75


@check("clocks", "health", "Clocks that were set below the default, or stay low under load")
def clocks(machine: Machine) -> Iterable[Finding]:
    """Compare application clocks with their default, and clocks under load with the highest."""
    devices = nvidia_devices(machine)
    lowered: dict[tuple[str, float, float], list[int]] = {}
    for device in devices:
        for part in ("graphics", "memory"):
            now = device.number("clocks", f"application_{part}_mhz")
            usual = device.number("clocks", f"default_application_{part}_mhz")
            if now and usual and now < usual:
                lowered.setdefault((part, now, usual), []).append(device.index)
    for (part, now, usual), indices in lowered.items():
        yield _lowered(part, now, usual, indices)
    slow = [f for d in devices for f in _slow(d)]
    yield from slow
    told = [d for d in devices if d.number("clocks", "max_sm_mhz")]
    if told and not lowered and not slow:
        names = gpus(d.index for d in told)
        most = max(d.number("clocks", "max_sm_mhz") or 0 for d in told)
        yield Finding(
            "clocks", "ok", Words("Clocks may rise to their maximum.", "频率可升至最高。"),
            Words(f"{names.en}: up to {most:.0f} MHz.", f"{names.zh}：最高 {most:.0f} MHz。"),
            known_by=_BY, values={"max_sm_clock_mhz": most},
        )  # fmt: skip


def _lowered(part: str, now: float, usual: float, indices: list[int]) -> Finding:
    names, listed = gpus(indices), ",".join(map(str, indices))
    kind = Words("memory", "显存") if part == "memory" else Words("SM", "SM")
    return Finding(
        "clocks", "warning",
        Words(
            f"{names.en}: {kind.en} clock set below the default.",
            f"{names.zh}：{kind.zh} 频率被设低。",
        ),
        Words(f"{now:.0f} MHz, by default {usual:.0f}.", f"{now:.0f} MHz，默认 {usual:.0f} MHz。"),
        Words(
            "All kernels run slower; measured times are not those of the device.",
            "所有内核变慢；测得的时间不代表设备的能力。",
        ),
        Words("Set it back, if it was not meant.", "若非有意，请恢复。"),
        (f"sudo nvidia-smi -i {listed} -rac", f"sudo nvidia-smi -i {listed} -rgc"), _BY,
        indices[0] if len(indices) == 1 else None, {"clock_mhz": now, "default_clock_mhz": usual},
    )  # fmt: skip


def _slow(device: NvidiaDevice) -> Iterable[Finding]:
    """Busy, slow, and no reason told: locked clocks (nvidia-smi -lgc) look like this."""
    now, most = device.number("clocks", "sm_mhz"), device.number("clocks", "max_sm_mhz")
    reasons = set(device.get("clocks_event_reasons") or ())
    busy = (device.number("utilization", "gpu_percent") or 0) >= _BUSY
    if not busy or not now or not most or now >= most * _SLOW:
        return
    if reasons - {"applications_clocks_setting"}:
        return  # the check "throttle" tells why
    name = gpus([device.index])
    yield Finding(
        "clocks", "warning",
        Words(f"{name.en} is busy at a low clock.", f"{name.zh} 在忙碌时频率很低。"),
        Words(
            f"{now:.0f} of {most:.0f} MHz, and no reason is told.",
            f"{now:.0f}/{most:.0f} MHz，且没有给出原因。",
        ),
        Words("Its clocks may be locked.", "频率可能被锁定。"),
        Words("Release them, if it was not meant.", "若非有意，请解锁。"),
        (f"sudo nvidia-smi -i {device.index} -rgc",), _BY, device.index,
        {"clock_mhz": now, "max_clock_mhz": most},
    )  # fmt: skip
