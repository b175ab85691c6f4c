"""Does each device do a tiny piece of work?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import gpus
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding, Severity
from gpuscope.document.text import Text

_BY = "torch.ones(64).add(1).sum() on each device"


@check("device_work", "software", Text("A tiny piece of work on each device that PyTorch sees"))
def run(machine: Machine) -> Iterator[Finding]:
    """Read what the probe tried; devices that fail alike are told together."""
    devices = (torch_facts(machine) or {}).get("devices") or []
    fine = [int(d["index"]) for d in devices if d.get("works")]
    bad: dict[str, list[int]] = {}
    for device in devices:
        if device.get("works") is False or (device.get("error") and not device.get("works")):
            bad.setdefault(str(device.get("error") or ""), []).append(int(device["index"]))
    for error, indices in bad.items():
        yield _failed(error, indices)
    if fine:
        who = gpus(fine)
        yield Finding(
            "device_work",
            "ok",
            Text("The devices do their work."),
            Text("{who}: right result", who=who),
            known_by=_BY,
        )


def _failed(error: str, indices: list[int]) -> Finding:
    title, fix, commands = _cause(error)
    who = gpus(indices)
    evidence = (
        Text("{who}: {error}", who=who, error=error)
        if error
        else Text("{who}: 64 ones plus 1 did not add up to 128.", who=who)
    )
    severity: Severity = "warning" if "out of memory" in error.lower() else "error"
    return Finding(
        "device_work",
        severity,
        title,
        evidence,
        Text("Nothing can run on it."),
        fix,
        commands,
        _BY,
        device=indices[0] if len(indices) == 1 else None,
        values={"failing": len(indices)},
    )


def _cause(error: str) -> tuple[Text, Text, tuple[str, ...]]:
    low = error.lower()
    if "out of memory" in low:
        return (
            Text("The device has no memory left."),
            Text("See who holds it, and end what is left over."),
            ("nvidia-smi",),
        )
    if "busy or unavailable" in low:
        return (
            Text("The device is taken by another process."),
            Text("Its compute mode lets one process in: wait for that one, or change the mode."),
            ("nvidia-smi --query-compute-apps=pid,name --format=csv", "sudo nvidia-smi -c 0"),
        )
    if "no kernel image" in low:
        return (
            Text("PyTorch has no kernels for this device."),
            Text("Install a build for its architecture."),
            ("pip install --upgrade torch",),
        )
    if not error:
        return (
            Text("The device computes a wrong result."),
            Text("Test it at length, and do not use it."),
            ("gpuscope doctor --deep",),
        )
    return (
        Text("Work on the device fails."),
        Text("Ask what the message means."),
        (
            f"gpuscope explain error {shlex.quote(error.splitlines()[0][:100])}",
            "sudo dmesg | grep -i -E 'xid|nvrm' | tail",
        ),
    )
