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
from gpuscope.explain.types import Words

_BY = "NVML: nvmlDeviceGetMigMode (nvidia-smi -L)"


@check("mig", "health", "Devices that are split into slices (MIG)")
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
        "mig", "warning",
        Words(f"{name.en}: MIG mode waits for a reset.", f"{name.zh}：MIG 模式等待重置生效。"),
        Words(
            f"It will be {'on' if later else 'off'}.", f"重置后将{'开启' if later else '关闭'}。"
        ),
        Words("Until then CUDA may refuse the device.", "在此之前 CUDA 可能拒绝使用该设备。"),
        Words("Reset the device when it is free.", "空闲时重置设备。"),
        (f"sudo nvidia-smi --gpu-reset -i {device.index}",), _BY, device.index,
        {"mig_mode_pending": later},
    )  # fmt: skip


def _empty(device: NvidiaDevice) -> Finding:
    name = gpus([device.index])
    return Finding(
        "mig", "error",
        Words(f"{name.en} is in MIG mode without a slice.", f"{name.zh} 处于 MIG 模式但没有实例。"),
        Words("No compute instance can be seen.", "看不到任何计算实例。"),
        Words("CUDA finds no device on it.", "CUDA 在其上找不到设备。"),
        Words("Make slices, or switch the mode off.", "创建实例，或关闭该模式。"),
        (
            f"sudo nvidia-smi mig -i {device.index} -cgi 9 -C",
            f"sudo nvidia-smi -i {device.index} -mig 0",
        ), _BY, device.index, {"slices": 0},
    )  # fmt: skip


def _split(device: NvidiaDevice, slices: list[str]) -> Finding:
    name, said = gpus([device.index]), ", ".join(slices[:7])
    return Finding(
        "mig", "note",
        Words(
            f"{name.en} is split into {len(slices)} slices.",
            f"{name.zh} 已分为 {len(slices)} 个实例。",
        ),
        Words(f"{said}.", f"{said}。"),
        Words(
            "A process gets one slice: its share of multiprocessors and memory; NCCL between "
            "slices goes through the host.",
            "每个进程只得到一个实例及其份额的 SM 与显存；实例间的 NCCL 要经过主机。",
        ),
        known_by=_BY, device=device.index, values={"slices": len(slices)},
    )  # fmt: skip
