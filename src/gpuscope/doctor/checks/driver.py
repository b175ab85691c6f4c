"""Is there a driver, and does it answer?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpuscope.doctor.accelerators import cards, counted, nvidia_present, torch_facts
from gpuscope.doctor.containers import container
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text, verbatim

_BY = "NVML (libnvidia-ml)"

_WHY = Text("Without the driver no program can use the device.")

_FAILURES: dict[int, tuple[Text, Text, tuple[str, ...]]] = {
    9: (
        Text("The NVIDIA kernel module is not loaded."),
        Text("Load it; if that fails, install the driver for this kernel again."),
        ("sudo modprobe nvidia", "sudo dmesg | grep -i nvrm | tail"),
    ),
    15: (
        Text("A GPU fell off the bus."),
        Text(
            "Read the kernel log for its Xid, then reboot; if it happens again, check seating, "
            "power and cooling."
        ),
        ("sudo dmesg | grep -i -E 'xid|nvrm' | tail",),
    ),
    18: (
        Text("The driver's library and its kernel module are of different versions."),
        Text(
            "The driver was updated while it was in use: reboot, or stop all programs on the GPUs "
            "and load the module again."
        ),
        ("sudo reboot",),
    ),
}
"""By NVML's error codes (nvml.h, nvmlReturn_t): what it is, what to do, what to type."""


@check("driver", "software", Text("The NVIDIA driver: installed, answering, and all devices there"))
def run(machine: Machine) -> Iterator[Finding]:
    """Look for the driver; on a machine without any accelerator, say so calmly."""
    if not nvidia_present(machine):
        if not _other_device(machine):
            yield _cpu_only(machine)
        return
    facts = machine.probe("nvml")
    if facts is None:
        yield _silent(machine)
    elif facts.get("package") is False:
        yield _without_package(machine)
    elif facts.get("error"):
        yield _failed(machine, facts)
    else:
        yield from _answering(machine, facts)


def _other_device(machine: Machine) -> bool:
    """Whether there is a device of another vendor, which has its own check."""
    torch = torch_facts(machine) or {}
    seen = torch.get("devices") or torch.get("mps_available")
    return bool(seen) or any(not card.display for card in cards(machine))


def _cpu_only(machine: Machine) -> Finding:
    found = Text("No accelerator is visible: a machine with processors only.")
    where = container(machine)
    fix = None
    if where in ("docker", "podman", "kubernetes", "containerd"):
        fix = Text("If the host has a GPU, give it to the container (docker run --gpus all).")
    return Finding("driver", "note", found, verbatim(""), fix=fix, known_by="/sys/bus/pci, /dev")


def _silent(machine: Machine) -> Finding:
    why = machine.probe_error("nvml")
    hangs = machine.probe_hangs("nvml")
    return Finding(
        "driver",
        "error" if hangs else "unknown",
        Text("The driver does not answer."),
        Text("Asking NVML failed: {why}.", why=why),
        _WHY if hangs else None,
        Text("A GPU that hangs blocks the driver: read the kernel log, then reboot.")
        if hangs
        else None,
        ("sudo dmesg | grep -i -E 'xid|nvrm' | tail",) if hangs else (),
        known_by=_BY,
    )


def _without_package(machine: Machine) -> Finding:
    """`nvidia-ml-py` is missing: nvidia-smi tells at least the versions."""
    answer = machine.command("nvidia-smi")
    match = re.search(r"Driver Version:\s*([\d.]+)", answer.out if answer else "")
    driver = match.group(1) if match else None
    evidence = Text("driver {driver}", driver=driver) if driver else verbatim("")
    return Finding(
        "driver",
        "note",
        Text(
            "The package nvidia-ml-py is not installed: most of the device's state is not checked."
        ),
        evidence,
        fix=Text("Install it."),
        commands=('pip install "gpuscope[nvidia]"',),
        known_by="nvidia-smi" if driver else "",
        values={"driver": driver},
    )


def _failed(machine: Machine, facts: Mapping[str, Any]) -> Finding:
    code, text = facts.get("code"), str(facts["error"])
    title, fix, commands = _failure(machine, code)
    found = Text("NVML says: {text} (code {code}).", text=text, code=code)
    return Finding(
        "driver", "error", title, found, _WHY, fix, commands, _BY, values={"nvml_code": code}
    )


def _failure(machine: Machine, code: int | None) -> tuple[Text, Text, tuple[str, ...]]:
    if code in _FAILURES:
        return _FAILURES[code]
    if code == 12:
        title = Text("The NVIDIA driver's library is not here.")
        if container(machine):
            return (
                title,
                Text(
                    "Start the container with the NVIDIA runtime, which mounts the host's driver."
                ),
                ("docker run --gpus all ...",),
            )
        return title, Text("Install the driver."), ("sudo ubuntu-drivers install",)
    return (
        Text("The driver does not work."),
        Text("See what nvidia-smi and the kernel log say."),
        ("nvidia-smi", "sudo dmesg | grep -i -E 'xid|nvrm' | tail"),
    )


def _answering(machine: Machine, facts: Mapping[str, Any]) -> Iterator[Finding]:
    devices = nvidia_devices(machine)
    lost = [int(d["index"]) for d in facts["devices"] if d.get("lost")]
    on_bus = len(cards(machine, "nvidia"))
    gpus = counted([device.name for device in devices])
    values = {
        "driver": facts["driver"],
        "cuda_driver": facts["cuda_driver"],
        "gpus": gpus,
        "gpu_count": len(devices),
        "gpus_on_bus": on_bus or None,
    }
    for index in lost:
        title, fix, commands = _FAILURES[15]
        found = Text("GPU {index} is listed but does not answer.", index=index)
        yield Finding("driver", "error", title, found, _WHY, fix, commands, _BY, device=index)
    if not devices:
        yield Finding(
            "driver",
            "error",
            Text("The driver works, but sees no device."),
            Text("Driver {facts}, 0 devices.", facts=facts["driver"]),
            _WHY,
            Text("In a container, ask for the devices; else the kernel log says why."),
            ("nvidia-smi -L", "sudo dmesg | grep -i nvrm | tail"),
            _BY,
            values=values,
        )
    elif on_bus > len(devices) + len(lost) and not container(machine):
        yield _left_out(on_bus, len(devices), on_bus - len(devices) - len(lost), values)
    elif not lost:
        evidence = Text(
            "{gpus}; driver {driver}, CUDA up to {cuda}",
            gpus=gpus,
            driver=facts["driver"],
            cuda=facts["cuda_driver"],
        )
        title = Text("The driver answers.")
        yield Finding("driver", "ok", title, evidence, known_by=_BY, values=values)


def _left_out(on_bus: int, seen: int, missing: int, values: Mapping[str, Any]) -> Finding:
    return Finding(
        "driver",
        "warning",
        Text("The driver does not see all GPUs."),
        Text(
            "{on_bus} on the PCI bus, {seen} in the driver: {missing} missing.",
            on_bus=on_bus,
            seen=seen,
            missing=missing,
        ),
        Text("Work is spread over fewer devices."),
        Text("The kernel log says why one was left out."),
        ("sudo dmesg | grep -i -E 'xid|nvrm' | tail",),
        f"{_BY}; /sys/bus/pci",
        values=values,
    )
