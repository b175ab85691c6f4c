"""Does each device do a tiny piece of work?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import gpus
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding, Severity
from gpuscope.explain.types import Words

_BY = "torch.ones(64).add(1).sum() on each device"


@check("device_work", "software", "A tiny piece of work on each device that PyTorch sees")
def run(machine: Machine) -> Iterator[Finding]:
    """Read what the probe tried; devices that fail alike are told together."""
    devices = (torch_facts(machine) or {}).get("devices") or []
    fine = [int(d["index"]) for d in devices if d.get("works")]
    bad: dict[str, list[int]] = {}
    for device in devices:
        if device.get("works") is False or (device.get("error") and not device.get("works")):
            bad.setdefault(str(device.get("error") or ""), []).append(int(device["index"]))
    for error, indices in bad.items():
        yield _failed(error, indices)
    if fine:
        who = gpus(fine)
        yield Finding(
            "device_work", "ok",
            Words("The devices do their work.", "设备可以工作。"),
            Words(f"{who.en}: right result", f"{who.zh}：结果正确"), known_by=_BY,
        )  # fmt: skip


def _failed(error: str, indices: list[int]) -> Finding:
    title, fix, commands = _cause(error)
    who = gpus(indices)
    told = Words(f"{who.en}: {error}", f"{who.zh}：{error}") if error else Words(
        f"{who.en}: 64 ones plus 1 did not add up to 128.",
        f"{who.zh}：64 个 1 各加 1 后之和不等于 128。",
    )  # fmt: skip
    severity: Severity = "warning" if "out of memory" in error.lower() else "error"
    return Finding(
        "device_work", severity, title, told,
        Words("Nothing can run on it.", "无法在其上运行任何任务。"), fix, commands, _BY,
        device=indices[0] if len(indices) == 1 else None, values={"failing": len(indices)},
    )  # fmt: skip


def _cause(error: str) -> tuple[Words, Words, tuple[str, ...]]:
    low = error.lower()
    if "out of memory" in low:
        return (
            Words("The device has no memory left.", "设备显存已用尽。"),
            Words("See who holds it, and end what is left over.", "查看占用者，结束残留进程。"),
            ("nvidia-smi",),
        )
    if "busy or unavailable" in low:
        return (
            Words("The device is taken by another process.", "设备被其他进程独占。"),
            Words(
                "Its compute mode lets one process in: wait for that one, or change the mode.",
                "其计算模式只允许一个进程：请等待其结束，或更改模式。",
            ),
            ("nvidia-smi --query-compute-apps=pid,name --format=csv", "sudo nvidia-smi -c 0"),
        )
    if "no kernel image" in low:
        return (
            Words("PyTorch has no kernels for this device.", "PyTorch 没有该设备的内核。"),
            Words("Install a build for its architecture.", "安装支持其架构的版本。"),
            ("pip install --upgrade torch",),
        )
    if not error:
        return (
            Words("The device computes a wrong result.", "设备计算结果错误。"),
            Words("Test it at length, and do not use it.", "请深入测试，并停用该设备。"),
            ("gpuscope doctor --deep",),
        )
    return (
        Words("Work on the device fails.", "在设备上运行失败。"),
        Words("Ask what the message means.", "查询该信息的含义。"),
        (
            f"gpuscope explain error {shlex.quote(error.splitlines()[0][:100])}",
            "sudo dmesg | grep -i -E 'xid|nvrm' | tail",
        ),
    )
