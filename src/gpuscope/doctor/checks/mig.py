"""Multi-instance mode (MIG): slices of a device instead of the whole.

Source: NVIDIA, "Multi-Instance GPU User Guide": CUDA sees one slice a process, slices have no
peer access, and the mode changes only at a reset.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text

_BY = "NVML: nvmlDeviceGetMigMode (nvidia-smi -L)"


@check("mig", "health", Text("Devices that are split into slices (MIG)"))
def mig(machine: Machine) -> Iterable[Finding]:
    """Say nothing where no device can be split, and no slice is asked for."""
    devices = nvidia_devices(machine)
    yield from _asked(machine, devices)
    for device in devices:
        now, later = device.get("mig_mode"), device.get("mig_mode_pending")
        if now is None:
            continue
        if later is not None and later != now:
            yield _pending(device, later)
        if now:
            slices = [str(s) for s in device.get("mig_devices") or () if s]
            yield _split(device, slices) if slices else _empty(device)


_VISIBLE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")


def _asked(machine: Machine, devices: Sequence[NvidiaDevice]) -> Iterable[Finding]:
    """A variable names a slice by its UUID, and there are fewer slices than names."""
    there = sum(
        1
        for device in devices
        if device.get("mig_mode")
        for s in device.get("mig_devices") or ()
        if s
    )
    known = {str(u) for device in devices for u in device.get("mig_uuids") or () if u}
    for name in _VISIBLE:
        asked = [part.strip() for part in (machine.variable(name) or "").split(",")]
        asked = [part for part in asked if part.startswith("MIG-")]
        gone = [part for part in asked if known and not any(u.startswith(part) for u in known)]
        if devices and asked and (gone or len(set(asked)) > there):
            yield Finding(
                "mig",
                "error",
                Text("{variable} names slices that do not exist.", variable=name),
                Text("{asked} named, {there} there.", asked=", ".join(gone or asked), there=there),
                Text("CUDA finds no device, or fewer than meant."),
                Text("Make the slices, or name those that nvidia-smi -L lists."),
                ("nvidia-smi -L", "nvidia-smi mig -lgip"),
                _BY,
                values={"slices": there, "asked": len(asked)},
            )


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
