"""Compute mode: whether several processes may use a device.

Source: NVIDIA, NVML API Reference Guide (nvmlComputeMode).
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding, Severity
from gpuscope.document.text import Text

_BY = "NVML: nvmlDeviceGetComputeMode"


@check("compute_mode", "health", Text("Whether several processes may use a device"))
def compute_mode(machine: Machine) -> Iterable[Finding]:
    """Group devices by their mode; the default one is not worth a line."""
    groups: dict[str, list[int]] = {}
    for device in nvidia_devices(machine):
        mode = device.get("compute_mode")
        if mode not in (None, "default"):
            groups.setdefault(str(mode), []).append(device.index)
    for mode, indices in groups.items():
        names, prohibited = gpus(indices), mode == "prohibited"
        severity: Severity = "error" if prohibited else "note"
        listed = ",".join(map(str, indices))
        yield Finding(
            "compute_mode",
            severity,
            Text("{names}: no process may compute.", names=names)
            if prohibited
            else Text("{names}: one process at a time.", names=names),
            Text("Compute mode {mode}.", mode=mode),
            Text("CUDA refuses the device.")
            if prohibited
            else Text(
                "A second process fails with 'all CUDA-capable devices are busy or unavailable'."
            ),
            Text("Set it back, if it was not meant."),
            (f"sudo nvidia-smi -i {listed} -c DEFAULT",),
            _BY,
            indices[0] if len(indices) == 1 else None,
            {"compute_mode": mode},
        )
