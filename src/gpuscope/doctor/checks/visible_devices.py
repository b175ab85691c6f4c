"""Which of the devices may this process see?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_BY = "NVML; torch.cuda.device_count(); CUDA_VISIBLE_DEVICES"


@check("visible_devices", "container", "Devices of the machine against those that PyTorch sees")
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
        title = Words("All devices are visible.", "所有设备可见。")
        told = Words(f"{there} of {there}", f"{there}/{there}")
        yield Finding("visible_devices", "ok", title, told, known_by=_BY, values=values)
    elif hiding:
        yield _hidden(machine, hiding, seen, there, values)
    elif seen and not sliced:
        yield Finding(
            "visible_devices", "warning",
            Words("PyTorch does not see all devices.", "PyTorch 没有看到全部设备。"),
            Words(
                f"{there} devices in the driver, {seen} in PyTorch.",
                f"驱动中有 {there} 个设备，PyTorch 中有 {seen} 个。",
            ),
            Words("Work is spread over fewer devices.", "可用设备变少。"),
            Words(
                "Look for device files that were not given to the container.",
                "检查是否有设备文件没有交给容器。",
            ),
            ("ls -l /dev/nvidia*",), _BY, values=values,
        )  # fmt: skip


def _hidden(machine: Machine, name: str, seen: int, there: int, values: dict[str, int]) -> Finding:
    value = machine.variable(name)
    told = Words(
        f"{name}={value}: {seen} of {there}.", f"{name}={value}：{there} 个中可见 {seen} 个。"
    )
    if seen:
        return Finding(
            "visible_devices", "note",
            Words("Some devices are hidden from this process.", "部分设备对本进程不可见。"),
            told, known_by=_BY, values=values,
        )  # fmt: skip
    return Finding(
        "visible_devices", "error",
        Words("All devices are hidden from this process.", "所有设备对本进程不可见。"),
        told,
        Words("Everything runs on the CPU.", "一切都在 CPU 上运行。"),
        Words("Unset the variable, or name devices that exist.", "取消该变量，或指定存在的设备。"),
        (f"unset {name}",), _BY, values=values,
    )  # fmt: skip


def _withheld(value: str | None) -> Finding:
    return Finding(
        "visible_devices", "note",
        Words("This container was started without GPUs.", "此容器启动时没有分配 GPU。"),
        Words(f"NVIDIA_VISIBLE_DEVICES={value}", f"NVIDIA_VISIBLE_DEVICES={value}"),
        fix=Words(
            "If it should have some, start it with --gpus all.",
            "如需 GPU，请用 --gpus all 启动。",
        ),
        known_by="NVIDIA_VISIBLE_DEVICES",
    )  # fmt: skip
