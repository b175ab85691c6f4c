"""Power limits below what the device ships with, or unequal among devices of one kind.

Source: NVIDIA, NVML API Reference Guide (nvmlDeviceGetPowerManagementLimit, ...DefaultLimit,
nvmlDeviceGetEnforcedPowerLimit).
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text

_LESS = 0.98
_BY = "NVML: power management limits (nvidia-smi -q -d POWER)"


@check("power_limit", "health", Text("Power limits against those that the device ships with"))
def power_limit(machine: Machine) -> Iterable[Finding]:
    """Group devices by their limit: eight lowered devices are one finding."""
    devices = [d for d in nvidia_devices(machine) if d.number("power", "limit_w")]
    lowered: dict[tuple[float, float], list[NvidiaDevice]] = {}
    for device in devices:
        limit, usual = _limits(device)
        if usual is not None and limit < usual * _LESS:
            lowered.setdefault((limit, usual), []).append(device)
    for (limit, usual), group in lowered.items():
        yield _low(group, limit, usual)
    if devices and not lowered:
        yield _well(devices)


def _limits(device: NvidiaDevice) -> tuple[float, float | None]:
    """The limit in force and the one that it ships with."""
    known = [
        w for k in ("limit_w", "enforced_limit_w") if (w := device.number("power", k)) is not None
    ]
    return min(known), device.number("power", "default_limit_w")


def _low(group: list[NvidiaDevice], limit: float, usual: float) -> Finding:
    names = gpus(d.index for d in group)
    return Finding(
        "power_limit",
        "warning",
        Text("{names}: power limit below the default.", names=names),
        Text("{limit} W of {usual} W.", limit=Number(limit, ".0f"), usual=Number(usual, ".0f")),
        Text(
            "Matmul-heavy work runs at a lower clock. It may be meant: to save energy, or by the "
            "cloud."
        ),
        Text("Set it back, if it was not meant."),
        (f"sudo nvidia-smi -i {','.join(str(d.index) for d in group)} -pl {usual:.0f}",),
        _BY,
        group[0].index if len(group) == 1 else None,
        {"limit_w": limit, "default_limit_w": usual, "devices": len(group)},
    )


def _well(devices: list[NvidiaDevice]) -> Finding:
    limits = sorted({_limits(d)[0] for d in devices})
    names, said = gpus(d.index for d in devices), ", ".join(f"{w:.0f} W" for w in limits)
    return Finding(
        "power_limit",
        "ok",
        Text("Power limits are the default ones."),
        Text("{names}: {said}.", names=names, said=said),
        known_by=_BY,
        values={"limit_w": limits[0]},
    )
