"""Who holds memory of the devices: others at work, dead processes, and memory that nobody owns.

Process numbers are the driver's: inside a container they are not ours, and processes of other
containers are not listed. So nothing is blamed there, only told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuscope.doctor.containers import container
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, verbatim

_RESERVED_SHARE, _RESERVED_BYTES = 0.01, 2 << 30
"""What the driver keeps for itself (616 MiB of an H200) and the context of the probe that asks
PyTorch at the same time are nobody's use."""

Values = dict[str, float | int | str | bool | None]

_BY = "NVML: running processes, memory in use (nvidia-smi)"


@check(
    "device_processes", "health", Text("Who holds memory of the devices; dead processes among them")
)
def device_processes(machine: Machine) -> Iterable[Finding]:
    """Look at each device's processes and at memory that they do not explain."""
    devices = [d for d in nvidia_devices(machine) if d.get("mig_mode") is not True]
    inside = container(machine)
    found: list[Finding] = []
    for device in devices:
        found += _dead(machine, device, inside)
        found += _held(device, inside)
    yield from found
    free = [d for d in devices if d.number("memory", "used_bytes") is not None]
    if free and not found:
        names = gpus(d.index for d in free)
        yield Finding(
            "device_processes",
            "ok",
            Text("Device memory is free."),
            Text("{names}: memory free.", names=names),
            known_by=_BY,
            values={"busy_devices": 0},
        )


def _state(machine: Machine, pid: int) -> str | None:
    """ "Z" for a process that ended and still waits for its parent; None if it is not there."""
    match = re.search(r"^State:\s*(\w)", machine.text(f"/proc/{pid}/status") or "", re.M)
    return match[1] if match else None


def _dead(machine: Machine, device: NvidiaDevice, inside: str) -> Iterable[Finding]:
    if inside:
        return
    for each in device.get("processes") or ():
        pid = int(each["pid"])
        if _state(machine, pid) == "Z":
            held = each.get("memory_bytes") or 0
            yield Finding(
                "device_processes",
                "warning",
                Text("A dead process holds memory of GPU {index}.", index=device.index),
                Text(
                    "Process {pid} ({name}) is a zombie with {held} GiB.",
                    pid=pid,
                    name=each.get("name") or "?",
                    held=Number(held / 2**30, ".1f"),
                ),
                Text("That memory is lost to all others."),
                Text("End its parent, or restart the container."),
                (f"ps -o ppid= -p {pid}   # then: kill <that number>",),
                _BY,
                device.index,
                {"pid": pid, "memory_bytes": held},
            )


def _held(device: NvidiaDevice, inside: str) -> Iterable[Finding]:
    used, total = device.number("memory", "used_bytes"), device.number("memory", "total_bytes")
    if used is None or total is None:
        return
    listed = device.get("processes")
    if used <= max(_RESERVED_BYTES, _RESERVED_SHARE * total):
        return
    name, gib = gpus([device.index]), (Number(used / 2**30, ".1f"), Number(total / 2**30, ".0f"))
    size = Text("{used} of {total} GiB", used=gib[0], total=gib[1])
    values: Values = {"used_bytes": used, "processes": None if listed is None else len(listed)}
    if listed:
        who = ", ".join(_who(each) for each in listed[:4])
        yield Finding(
            "device_processes",
            "note",
            Text("{name} is in use.", name=name),
            Text("{size}: {who}.", size=size, who=who),
            Text("Your work shares it: less memory, longer steps."),
            known_by=_BY,
            device=device.index,
            values=values,
        )
        return
    yield _nobody(device, inside, size, values)


def _nobody(device: NvidiaDevice, inside: str, size: Text, values: Values) -> Finding:
    name, listed = gpus([device.index]), device.get("processes")
    owner = verbatim("Windows") if inside == "wsl" else Text("another container")
    evidence = (
        Text("{size}, and no process is listed: it may belong to {owner}.", size=size, owner=owner)
        if inside
        else Text("{size}, and no process is listed.", size=size)
    )
    return Finding(
        "device_processes",
        "note" if inside or listed is None else "warning",
        Text("Memory of {name} is held by nobody listed.", name=name),
        evidence,
        Text("That memory is lost to your work."),
        None
        if inside
        else Text("Look for processes that hold the device's file; if there are none, reset it."),
        () if inside else (f"sudo fuser -v /dev/nvidia{device.index}",),
        _BY,
        device.index,
        values,
    )


def _who(each: dict[str, object]) -> str:
    name = str(each.get("name") or "?").rpartition("/")[2]
    held = each.get("memory_bytes")
    size = f", {held / 2**30:.1f} GiB" if isinstance(held, int) else ""
    return f"{each['pid']} ({name}{size})"
