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
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, verbatim

_BY = "NVML: application clocks (nvidia-smi -q -d CLOCK)"
_BUSY = 90
_SLOW = 0.75


@check("clocks", "health", Text("Clocks that were set below the default, or stay low under load"))
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
    known = [d for d in devices if d.number("clocks", "max_sm_mhz")]
    if known and not lowered and not slow:
        names = gpus(d.index for d in known)
        most = max(d.number("clocks", "max_sm_mhz") or 0 for d in known)
        yield Finding(
            "clocks",
            "ok",
            Text("Clocks may rise to their maximum."),
            Text("{names}: up to {most} MHz.", names=names, most=Number(most, ".0f")),
            known_by=_BY,
            values={"max_sm_clock_mhz": most},
        )


def _lowered(part: str, now: float, usual: float, indices: list[int]) -> Finding:
    names, listed = gpus(indices), ",".join(map(str, indices))
    kind = Text("memory") if part == "memory" else verbatim("SM")
    return Finding(
        "clocks",
        "warning",
        Text("{names}: {kind} clock set below the default.", names=names, kind=kind),
        Text("{now} MHz, by default {usual}.", now=Number(now, ".0f"), usual=Number(usual, ".0f")),
        Text("All kernels run slower; measured times are not those of the device."),
        Text("Set it back, if it was not meant."),
        (f"sudo nvidia-smi -i {listed} -rac", f"sudo nvidia-smi -i {listed} -rgc"),
        _BY,
        indices[0] if len(indices) == 1 else None,
        {"clock_mhz": now, "default_clock_mhz": usual},
    )


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
        "clocks",
        "warning",
        Text("{name} is busy at a low clock.", name=name),
        Text(
            "{now} of {most} MHz, and no reason is told.",
            now=Number(now, ".0f"),
            most=Number(most, ".0f"),
        ),
        Text("Its clocks may be locked."),
        Text("Release them, if it was not meant."),
        (f"sudo nvidia-smi -i {device.index} -rgc",),
        _BY,
        device.index,
        {"clock_mhz": now, "max_clock_mhz": most},
    )
