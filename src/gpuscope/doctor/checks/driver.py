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
from gpuscope.explain.types import Words

_BY = "NVML (libnvidia-ml)"

_WHY = Words(
    "Without the driver no program can use the device.", "没有驱动，任何程序都无法使用该设备。"
)

_FAILURES: dict[int, tuple[Words, Words, tuple[str, ...]]] = {
    9: (
        Words("The NVIDIA kernel module is not loaded.", "NVIDIA 内核模块没有加载。"),
        Words(
            "Load it; if that fails, install the driver for this kernel again.",
            "加载该模块；如果失败，请为当前内核重新安装驱动。",
        ),
        ("sudo modprobe nvidia", "sudo dmesg | grep -i nvrm | tail"),
    ),
    15: (
        Words("A GPU fell off the bus.", "有一块 GPU 从总线上掉线了。"),
        Words(
            "Read the kernel log for its Xid, then reboot; if it happens again, check seating, "
            "power and cooling.",
            "查看内核日志中的 Xid，然后重启；若再次出现，请检查插接、供电与散热。",
        ),
        ("sudo dmesg | grep -i -E 'xid|nvrm' | tail",),
    ),
    18: (
        Words(
            "The driver's library and its kernel module are of different versions.",
            "驱动库与内核模块的版本不一致。",
        ),
        Words(
            "The driver was updated while it was in use: reboot, or stop all programs on the GPUs "
            "and load the module again.",
            "驱动在使用中被更新：请重启，或停止所有使用 GPU 的程序后重新加载模块。",
        ),
        ("sudo reboot",),
    ),
}
"""By NVML's error codes (nvml.h, nvmlReturn_t): what it is, what to do, what to type."""


@check("driver", "software", "The NVIDIA driver: installed, answering, and all devices there")
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
    found = Words(
        "No accelerator is visible: a machine with processors only.",
        "没有看到加速器：这是一台只有 CPU 的机器。",
    )
    where = container(machine)
    fix = None
    if where in ("docker", "podman", "kubernetes", "containerd"):
        fix = Words(
            "If the host has a GPU, give it to the container (docker run --gpus all).",
            "如果主机有 GPU，请把它交给容器（docker run --gpus all）。",
        )
    return Finding("driver", "note", found, Words("", ""), fix=fix, known_by="/sys/bus/pci, /dev")


def _silent(machine: Machine) -> Finding:
    why = machine.probe_error("nvml")
    hangs = why.startswith("no answer")
    return Finding(
        "driver", "error" if hangs else "unknown",
        Words("The driver does not answer.", "驱动没有响应。"),
        Words(f"Asking NVML failed: {why}.", f"查询 NVML 失败：{why}。"),
        _WHY if hangs else None,
        Words(
            "A GPU that hangs blocks the driver: read the kernel log, then reboot.",
            "GPU 挂起会阻塞驱动：请查看内核日志，然后重启。",
        ) if hangs else None,
        ("sudo dmesg | grep -i -E 'xid|nvrm' | tail",) if hangs else (),
        known_by=_BY,
    )  # fmt: skip


def _without_package(machine: Machine) -> Finding:
    """`nvidia-ml-py` is missing: nvidia-smi tells at least the versions."""
    answer = machine.command("nvidia-smi")
    match = re.search(r"Driver Version:\s*([\d.]+)", answer.out if answer else "")
    driver = match.group(1) if match else None
    told = Words(f"driver {driver}", f"驱动 {driver}") if driver else Words("", "")
    return Finding(
        "driver", "note",
        Words(
            "The package nvidia-ml-py is not installed: most of the device's state is not checked.",
            "没有安装 nvidia-ml-py：设备的大部分状态没有检查。",
        ),
        told,
        fix=Words("Install it.", "安装它。"),
        commands=('pip install "gpuscope[nvidia]"',),
        known_by="nvidia-smi" if driver else "",
        values={"driver": driver},
    )  # fmt: skip


def _failed(machine: Machine, facts: Mapping[str, Any]) -> Finding:
    code, text = facts.get("code"), str(facts["error"])
    title, fix, commands = _failure(machine, code)
    found = Words(f"NVML says: {text} (code {code}).", f"NVML 报告：{text}（代码 {code}）。")
    return Finding(
        "driver", "error", title, found, _WHY, fix, commands, _BY, values={"nvml_code": code}
    )


def _failure(machine: Machine, code: int | None) -> tuple[Words, Words, tuple[str, ...]]:
    if code in _FAILURES:
        return _FAILURES[code]
    if code == 12:
        title = Words("The NVIDIA driver's library is not here.", "这里没有 NVIDIA 驱动库。")
        if container(machine):
            return (
                title,
                Words(
                    "Start the container with the NVIDIA runtime, which mounts the host's driver.",
                    "用 NVIDIA 运行时启动容器，它会挂载主机的驱动。",
                ),
                ("docker run --gpus all ...",),
            )
        return title, Words("Install the driver.", "安装驱动。"), ("sudo ubuntu-drivers install",)
    return (
        Words("The driver does not work.", "驱动不能工作。"),
        Words("See what nvidia-smi and the kernel log say.", "查看 nvidia-smi 与内核日志的信息。"),
        ("nvidia-smi", "sudo dmesg | grep -i -E 'xid|nvrm' | tail"),
    )


def _answering(machine: Machine, facts: Mapping[str, Any]) -> Iterator[Finding]:
    devices = nvidia_devices(machine)
    lost = [int(d["index"]) for d in facts["devices"] if d.get("lost")]
    on_bus = len(cards(machine, "nvidia"))
    gpus = counted([device.name for device in devices])
    values = {
        "driver": facts["driver"], "cuda_driver": facts["cuda_driver"], "gpus": gpus,
        "gpu_count": len(devices), "gpus_on_bus": on_bus or None,
    }  # fmt: skip
    for index in lost:
        title, fix, commands = _FAILURES[15]
        found = Words(
            f"GPU {index} is listed but does not answer.", f"GPU {index} 在列表中，但没有响应。"
        )
        yield Finding("driver", "error", title, found, _WHY, fix, commands, _BY, device=index)
    if not devices:
        yield Finding(
            "driver", "error",
            Words("The driver works, but sees no device.", "驱动正常，但看不到设备。"),
            Words(f"Driver {facts['driver']}, 0 devices.", f"驱动 {facts['driver']}，0 个设备。"),
            _WHY,
            Words(
                "In a container, ask for the devices; else the kernel log says why.",
                "在容器中请申请设备；否则请查看内核日志中的原因。",
            ),
            ("nvidia-smi -L", "sudo dmesg | grep -i nvrm | tail"), _BY, values=values,
        )  # fmt: skip
    elif on_bus > len(devices) + len(lost) and not container(machine):
        yield _left_out(on_bus, len(devices), on_bus - len(devices) - len(lost), values)
    elif not lost:
        told = f"{gpus}; driver {facts['driver']}, CUDA up to {facts['cuda_driver']}"
        chinese = f"{gpus}；驱动 {facts['driver']}，支持 CUDA 至 {facts['cuda_driver']}"
        title = Words("The driver answers.", "驱动正常响应。")
        yield Finding(
            "driver", "ok", title, Words(told, chinese), known_by=_BY, values=values
        )  # fmt: skip


def _left_out(on_bus: int, seen: int, missing: int, values: Mapping[str, Any]) -> Finding:
    return Finding(
        "driver", "warning",
        Words("The driver does not see all GPUs.", "驱动没有看到全部 GPU。"),
        Words(
            f"{on_bus} on the PCI bus, {seen} in the driver: {missing} missing.",
            f"PCI 总线上有 {on_bus} 块，驱动中有 {seen} 块：缺少 {missing} 块。",
        ),
        Words("Work is spread over fewer devices.", "可用设备变少。"),
        Words("The kernel log says why one was left out.", "内核日志会说明原因。"),
        ("sudo dmesg | grep -i -E 'xid|nvrm' | tail",), f"{_BY}; /sys/bus/pci", values=values,
    )  # fmt: skip
