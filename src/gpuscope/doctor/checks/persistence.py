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
from gpuscope.explain.types import Words

_BY = "NVML: nvmlDeviceGetPersistenceMode"


@check("persistence", "health", "Whether the driver keeps idle devices ready")
def persistence(machine: Machine) -> Iterable[Finding]:
    """Group devices by their mode."""
    told = [d for d in nvidia_devices(machine) if d.get("persistence_mode") is not None]
    off = [d for d in told if not d.get("persistence_mode")]
    if off:
        names = gpus(d.index for d in off)
        yield Finding(
            "persistence", "note",
            Words(f"{names.en}: persistence mode is off.", f"{names.zh}：持久模式未开启。"),
            Words("The driver lets idle devices go.", "驱动会释放空闲设备。"),
            Words(
                "The first CUDA call of a job then waits seconds, and power or clock limits are "
                "forgotten.",
                "任务的首次 CUDA 调用要等待数秒，功率与频率设置也会丢失。",
            ),
            Words("Switch it on (on the host).", "在主机上开启。"),
            ("sudo nvidia-smi -pm 1   # or the service nvidia-persistenced",), _BY, None,
            {"devices_off": len(off)},
        )  # fmt: skip
    elif told:
        names = gpus(d.index for d in told)
        yield Finding(
            "persistence", "ok", Words("Persistence mode is on.", "持久模式已开启。"),
            Words(f"{names.en}: on.", f"{names.zh}：开启。"),
            known_by=_BY, values={"devices_off": 0},
        )  # fmt: skip
