"""Which of the devices may this process see?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text, verbatim

_HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_BY = "NVML; torch.cuda.device_count(); CUDA_VISIBLE_DEVICES"


@check(
    "visible_devices", "container", Text("Devices of the machine against those that PyTorch sees")
)
def run(machine: Machine) -> Iterator[Finding]:
    """Compare what NVML lists with what PyTorch sees, and name the variable that hides some."""
    devices = nvidia_devices(machine)
    torch = torch_facts(machine) or {}
    runtime = machine.variable("NVIDIA_VISIBLE_DEVICES")
    if not devices:
        if runtime in ("void", "none", ""):
            yield _withheld(runtime)
        return
    if not torch.get("cuda_build"):
        return
    seen, there = len(torch.get("devices") or ()), len(devices)
    hiding = next((n for n in _HIDING if machine.variable(n) is not None), "")
    values = {"devices": there, "devices_seen": seen}
    sliced = any(device.get("mig_mode") for device in devices)
    if seen == there:
        title = Text("All devices are visible.")
        evidence = Text("{there} of {there}", there=there)
        yield Finding("visible_devices", "ok", title, evidence, known_by=_BY, values=values)
    elif hiding:
        yield _hidden(machine, hiding, seen, there, values)
    elif seen and not sliced:
        yield Finding(
            "visible_devices",
            "warning",
            Text("PyTorch does not see all devices."),
            Text("{there} devices in the driver, {seen} in PyTorch.", there=there, seen=seen),
            Text("Work is spread over fewer devices."),
            Text("Look for device files that were not given to the container."),
            ("ls -l /dev/nvidia*",),
            _BY,
            values=values,
        )


def _hidden(machine: Machine, name: str, seen: int, there: int, values: dict[str, int]) -> Finding:
    value = machine.variable(name)
    evidence = Text(
        "{setting}: {seen} of {there}.", setting=f"{name}={value}", seen=seen, there=there
    )
    if seen:
        return Finding(
            "visible_devices",
            "note",
            Text("Some devices are hidden from this process."),
            evidence,
            known_by=_BY,
            values=values,
        )
    return Finding(
        "visible_devices",
        "error",
        Text("All devices are hidden from this process."),
        evidence,
        Text("Everything runs on the CPU."),
        Text("Unset the variable, or name devices that exist."),
        (f"unset {name}",),
        _BY,
        values=values,
    )


def _withheld(value: str | None) -> Finding:
    return Finding(
        "visible_devices",
        "note",
        Text("This container was started without GPUs."),
        verbatim(f"NVIDIA_VISIBLE_DEVICES={value}"),
        fix=Text("If it should have some, start it with --gpus all."),
        known_by="NVIDIA_VISIBLE_DEVICES",
    )
