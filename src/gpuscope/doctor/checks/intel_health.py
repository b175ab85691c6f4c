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
from gpuscope.document.text import Text

_BY = "xpu-smi health -l -j"
_SEVERITIES: Mapping[str, Severity] = {"warning": "warning", "critical": "error"}


@check("intel_health", "health", Text("Intel devices: what xpu-smi says of each part"))
def intel_health(machine: Machine) -> Iterable[Finding]:
    """Ask Intel's tool where there is an Intel card."""
    if not cards(machine, "intel"):
        return
    answer = machine.command("xpu-smi", "health", "-l", "-j", timeout_s=8.0)
    if answer is None or not answer.ok:
        return
    try:
        facts = json.loads(answer.out)
    except ValueError:
        return
    parts = [*_parts(facts, None, "")]
    bad = [p for p in parts if p[2].lower() in _SEVERITIES]
    for device, part, status, description in bad:
        name = part.replace("_", " ") or "?"
        yield Finding(
            "intel_health",
            _SEVERITIES[status.lower()],
            Text(
                "Intel GPU {device}: {name} is {status}.",
                device=device,
                name=name,
                status=status.lower(),
            ),
            Text("{said}.", said=description or status),
            Text("The driver slows or stops the device to protect it."),
            None,
            ("xpu-smi health -l",),
            _BY,
            device,
            {name: status},
        )
    if any(p[2].lower() == "ok" for p in parts) and not bad:
        yield Finding(
            "intel_health",
            "ok",
            Text("Intel devices are healthy."),
            Text("{parts} parts were judged.", parts=len(parts)),
            known_by=_BY,
        )


def _parts(given: Any, device: int | None, name: str) -> Iterable[tuple[int | None, str, str, str]]:
    """Every object with a status: (device, part, status, description), however it is nested."""
    if isinstance(given, list):
        for each in given:
            yield from _parts(each, device, name)
    elif isinstance(given, Mapping):
        number = given.get("device_id")
        device = number if isinstance(number, int) else device
        status = given.get("status")
        if isinstance(status, str):
            yield device, name, status, str(given.get("description") or "")
        for key, each in given.items():
            if isinstance(each, list | Mapping):
                yield from _parts(each, device, str(key))
