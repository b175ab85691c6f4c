"""Health of AMD devices: temperature, memory errors, throttling, PCIe resends.

Source: AMD, "AMD SMI CLI tool" (`amd-smi metric --json`, `amd-smi static --json`; what is not
supported reads "N/A") and `rocm-smi --showallinfo --json` of older ROCm. Written to the documents
and tested on made-up answers: not seen on a device yet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from gpuscope.doctor.accelerators import amd_present
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text

_BY = "amd-smi metric --json"
_SLOWDOWN_C = {"hotspot": 100.0, "mem": 100.0}
"""Where `amd-smi static` names no limit (Instinct's are 95 to 110)."""

_NEAR_C = 4.0


@check("amd_health", "health", Text("AMD devices: temperature, memory errors, throttling"))
def amd_health(machine: Machine) -> Iterable[Finding]:
    """Read AMD's tool; nothing is said where there is no AMD device."""
    if not amd_present(machine):
        return
    devices = _listed(machine, "metric")
    limits = {d.get("gpu"): d for d in _listed(machine, "static")}
    if not devices:
        yield from _older(machine)
        return
    found: list[Finding] = []
    for position, each in enumerate(devices):
        index = each.get("gpu") if isinstance(each.get("gpu"), int) else position
        found += _hot(int(index or 0), each, limits.get(each.get("gpu"), {}))
        found += _memory(int(index or 0), each)
        found += _throttled(int(index or 0), each)
    yield from found
    if not found:
        hottest = max((_number(d, "temperature", "hotspot") or 0 for d in devices), default=0)
        yield Finding(
            "amd_health",
            "ok",
            Text("AMD devices are healthy."),
            Text(
                "{devices} devices, up to {hottest} °C, no memory errors.",
                devices=len(devices),
                hottest=Number(hottest, ".0f"),
            ),
            known_by=_BY,
            values={"devices": len(devices), "hottest_c": hottest},
        )


def _listed(machine: Machine, what: str) -> list[Mapping[str, Any]]:
    answer = machine.command("amd-smi", what, "--json", timeout_s=10.0)
    if answer is None or not answer.ok:
        return []
    try:
        facts = json.loads(answer.out)
    except ValueError:
        return []
    if isinstance(facts, Mapping):  # newer releases wrap the list
        facts = facts.get("gpu_data")
    return [d for d in facts if isinstance(d, Mapping)] if isinstance(facts, list) else []


def _number(device: Mapping[str, Any], *path: str) -> float | None:
    """A number, with or without its unit beside it; None for "N/A"."""
    found: Any = device
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    if isinstance(found, Mapping):
        found = found.get("value")
    return float(found) if isinstance(found, int | float) else None


def _hot(index: int, device: Mapping[str, Any], static: Mapping[str, Any]) -> Iterable[Finding]:
    for part, name in (
        ("hotspot", "slowdown_hotspot_temperature"),
        ("mem", "slowdown_vram_temperature"),
    ):
        now = _number(device, "temperature", part)
        limit = _number(static, "limit", name) or _SLOWDOWN_C[part]
        if now is None or now < limit - _NEAR_C:
            continue
        said = Text("memory") if part == "mem" else Text("chip")
        yield Finding(
            "amd_health",
            "warning",
            Text("AMD GPU {index} is close to its limit of temperature.", index=index),
            Text(
                "{said}: {now} °C of {limit}.",
                said=said,
                now=Number(now, ".0f"),
                limit=Number(limit, ".0f"),
            ),
            Text("The clock falls to stay below it."),
            Text("Look at fans, air flow, dust."),
            ("amd-smi metric --temperature",),
            _BY,
            index,
            {"temperature_c": now, "limit_c": limit},
        )


def _memory(index: int, device: Mapping[str, Any]) -> Iterable[Finding]:
    bad = _number(device, "ecc", "total_uncorrectable_count")
    if bad:
        yield Finding(
            "amd_health",
            "error",
            Text("AMD GPU {index} has uncorrectable memory errors.", index=index),
            Text("{bad} counted.", bad=Number(bad, ".0f")),
            Text("Work that meets them ends, or gives wrong results."),
            Text("Drain and reset the device; have it looked at if they come again."),
            ("amd-smi metric --ecc", "amd-smi bad-pages"),
            _BY,
            index,
            {"uncorrectable": bad},
        )


def _throttled(index: int, device: Mapping[str, Any]) -> Iterable[Finding]:
    power = device.get("power")
    state = power.get("throttle_status") if isinstance(power, Mapping) else None
    if state == "THROTTLED":
        yield Finding(
            "amd_health",
            "note",
            Text("AMD GPU {index} is held down now.", index=index),
            Text("Throttle status: throttled."),
            Text("At the power limit under load this is usual; with heat it is not."),
            None,
            ("amd-smi metric --throttle --temperature --power",),
            _BY,
            index,
            {"throttled": True},
        )


def _older(machine: Machine) -> Iterable[Finding]:
    answer = machine.command("rocm-smi", "--showallinfo", "--json", timeout_s=10.0)
    try:
        facts = json.loads(answer.out) if answer is not None and answer.ok else {}
    except ValueError:
        facts = {}
    for card, fields in facts.items() if isinstance(facts, Mapping) else ():
        number = re.fullmatch(r"card(\d+)", card)
        if not number or not isinstance(fields, Mapping):
            continue
        text = str(fields.get("Temperature (Sensor junction) (C)", ""))
        if re.fullmatch(r"\d+(\.\d+)?", text):
            fake = {"temperature": {"hotspot": float(text)}}
            yield from _hot(int(number[1]), fake, {})
