"""Multi-instance mode (MIG): slices of a device instead of the whole.

Source: NVIDIA, "Multi-Instance GPU User Guide": CUDA sees one slice a process, slices have no
peer access, and the mode changes only at a reset.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text

_BY = "NVML: nvmlDeviceGetMigMode (nvidia-smi -L)"


@check("mig", "health", Text("Devices that are split into slices (MIG)"))
def mig(machine: Machine) -> Iterable[Finding]:
    """Say nothing where no device can be split."""
    for device in nvidia_devices(machine):
        now, later = device.get("mig_mode"), device.get("mig_mode_pending")
        if now is None:
            continue
        if later is not None and later != now:
            yield _pending(device, later)
        if now:
            slices = [str(s) for s in device.get("mig_devices") or () if s]
            yield _split(device, slices) if slices else _empty(device)


def _pending(device: NvidiaDevice, later: bool) -> Finding:
    name = gpus([device.index])
    return Finding(
        "mig",
        "warning",
        Text("{name}: MIG mode waits for a reset.", name=name),
        Text("It will be {state}.", state=Text("on") if later else Text("off")),
        Text("Until then CUDA may refuse the device."),
        Text("Reset the device when it is free."),
        (f"sudo nvidia-smi --gpu-reset -i {device.index}",),
        _BY,
        device.index,
        {"mig_mode_pending": later},
    )


def _empty(device: NvidiaDevice) -> Finding:
    name = gpus([device.index])
    return Finding(
        "mig",
        "error",
        Text("{name} is in MIG mode without a slice.", name=name),
        Text("No compute instance can be seen."),
        Text("CUDA finds no device on it."),
        Text("Make slices, or switch the mode off."),
        (
            f"sudo nvidia-smi mig -i {device.index} -cgi 9 -C",
            f"sudo nvidia-smi -i {device.index} -mig 0",
        ),
        _BY,
        device.index,
        {"slices": 0},
    )


def _split(device: NvidiaDevice, slices: list[str]) -> Finding:
    name, said = gpus([device.index]), ", ".join(slices[:7])
    return Finding(
        "mig",
        "note",
        Text("{name} is split into {slices} slices.", name=name, slices=len(slices)),
        Text("{said}.", said=said),
        Text(
            "A process gets one slice: its share of multiprocessors and memory; NCCL between "
            "slices goes through the host."
        ),
        known_by=_BY,
        device=device.index,
        values={"slices": len(slices)},
    )
