"""Health of Intel devices, as Intel's own tool judges it.

Source: Intel, "XPU System Management Interface" (`xpu-smi health -l -j`: a status for each part).
Written to the document and tested on made-up answers: not seen on a device yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gpuscope.doctor.accelerators import cards
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding, Severity
from gpuscope.explain.types import Words

_BY = "xpu-smi health -l -j"
_SEVERITIES: Mapping[str, Severity] = {"warning": "warning", "critical": "error"}


@check("intel_health", "health", "Intel devices: what xpu-smi says of each part")
def intel_health(machine: Machine) -> Iterable[Finding]:
    """Ask Intel's tool where there is an Intel card."""
    if not cards(machine, "intel"):
        return
    answer = machine.command("xpu-smi", "health", "-l", "-j", timeout_s=8.0)
    if answer is None or not answer.ok:
        return
    try:
        told = json.loads(answer.out)
    except ValueError:
        return
    parts = [*_parts(told, None, "")]
    bad = [p for p in parts if p[2].lower() in _SEVERITIES]
    for device, part, status, description in bad:
        name = part.replace("_", " ") or "?"
        yield Finding(
            "intel_health", _SEVERITIES[status.lower()],
            Words(f"Intel GPU {device}: {name} is {status.lower()}.",
                  f"Intel GPU {device}：{name} 状态为 {status}。"),
            Words(f"{description or status}.", f"{description or status}。"),
            Words(
                "The driver slows or stops the device to protect it.",
                "驱动会降速或停用该设备以保护它。",
            ),
            None, ("xpu-smi health -l",), _BY, device, {name: status},
        )  # fmt: skip
    if any(p[2].lower() == "ok" for p in parts) and not bad:
        yield Finding(
            "intel_health", "ok", Words("Intel devices are healthy.", "Intel 设备健康。"),
            Words(f"{len(parts)} parts were judged.", f"检查了 {len(parts)} 个部件。"),
            known_by=_BY,
        )  # fmt: skip


def _parts(told: Any, device: int | None, name: str) -> Iterable[tuple[int | None, str, str, str]]:
    """Every object with a status: (device, part, status, description), however it is nested."""
    if isinstance(told, list):
        for each in told:
            yield from _parts(each, device, name)
    elif isinstance(told, Mapping):
        number = told.get("device_id")
        device = number if isinstance(number, int) else device
        status = told.get("status")
        if isinstance(status, str):
            yield device, name, status, str(told.get("description") or "")
        for key, each in told.items():
            if isinstance(each, list | Mapping):
                yield from _parts(each, device, str(key))
