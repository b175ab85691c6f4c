"""Persistence mode: whether the driver keeps idle devices ready.

Source: NVIDIA, "Driver Persistence": without it the last process to leave lets the driver shut the
device down; the next one waits for its start, and settings are lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text

_BY = "NVML: nvmlDeviceGetPersistenceMode"


@check("persistence", "health", Text("Whether the driver keeps idle devices ready"))
def persistence(machine: Machine) -> Iterable[Finding]:
    """Group devices by their mode."""
    known = [d for d in nvidia_devices(machine) if d.get("persistence_mode") is not None]
    off = [d for d in known if not d.get("persistence_mode")]
    if off:
        names = gpus(d.index for d in off)
        yield Finding(
            "persistence",
            "note",
            Text("{names}: persistence mode is off.", names=names),
            Text("The driver lets idle devices go."),
            Text(
                "The first CUDA call of a job then waits seconds, and power or clock limits are "
                "forgotten."
            ),
            Text("Switch it on (on the host)."),
            ("sudo nvidia-smi -pm 1   # or the service nvidia-persistenced",),
            _BY,
            None,
            {"devices_off": len(off)},
        )
    elif known:
        names = gpus(d.index for d in known)
        yield Finding(
            "persistence",
            "ok",
            Text("Persistence mode is on."),
            Text("{names}: on.", names=names),
            known_by=_BY,
            values={"devices_off": 0},
        )
