"""Compute mode: whether several processes may use a device.

Source: NVIDIA, NVML API Reference Guide (nvmlComputeMode).
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding, Severity
from gpuscope.explain.types import Words

_BY = "NVML: nvmlDeviceGetComputeMode"


@check("compute_mode", "health", "Whether several processes may use a device")
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
            "compute_mode", severity,
            Words(f"{names.en}: no process may compute.", f"{names.zh}：禁止任何进程计算。")
            if prohibited
            else Words(
                f"{names.en}: one process at a time.",
                f"{names.zh}：同一时刻只允许一个进程。",
            ),
            Words(f"Compute mode {mode}.", f"计算模式 {mode}。"),
            Words(
                "CUDA refuses the device.", "CUDA 拒绝使用该设备。"
            )
            if prohibited
            else Words(
                "A second process fails with 'all CUDA-capable devices are busy or unavailable'.",
                "第二个进程会报 “all CUDA-capable devices are busy or unavailable”。",
            ),
            Words("Set it back, if it was not meant.", "若非有意，请恢复。"),
            (f"sudo nvidia-smi -i {listed} -c DEFAULT",), _BY,
            indices[0] if len(indices) == 1 else None, {"compute_mode": mode},
        )  # fmt: skip
