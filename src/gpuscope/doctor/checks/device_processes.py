"""Who holds memory of the devices: others at work, dead processes, and memory that nobody owns.

Process numbers are the driver's: inside a container they are not ours, and processes of other
containers are not listed. So nothing is blamed there, only told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuscope.doctor.containers import container
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_RESERVED_SHARE, _RESERVED_BYTES = 0.01, 2 << 30
"""What the driver keeps for itself (616 MiB of an H200) and the context of the probe that asks
PyTorch at the same time are nobody's use."""

Values = dict[str, float | int | str | bool | None]

_BY = "NVML: running processes, memory in use (nvidia-smi)"


@check("device_processes", "health", "Who holds memory of the devices; dead processes among them")
def device_processes(machine: Machine) -> Iterable[Finding]:
    """Look at each device's processes and at memory that they do not explain."""
    devices = [d for d in nvidia_devices(machine) if d.get("mig_mode") is not True]
    inside = container(machine)
    found: list[Finding] = []
    for device in devices:
        found += _dead(machine, device, inside)
        found += _held(device, inside)
    yield from found
    free = [d for d in devices if d.number("memory", "used_bytes") is not None]
    if free and not found:
        names = gpus(d.index for d in free)
        yield Finding(
            "device_processes", "ok", Words("Device memory is free.", "显存空闲。"),
            Words(f"{names.en}: memory free.", f"{names.zh}：显存空闲。"), known_by=_BY,
            values={"busy_devices": 0},
        )  # fmt: skip


def _state(machine: Machine, pid: int) -> str | None:
    """ "Z" for a process that ended and still waits for its parent; None if it is not there."""
    match = re.search(r"^State:\s*(\w)", machine.text(f"/proc/{pid}/status") or "", re.M)
    return match[1] if match else None


def _dead(machine: Machine, device: NvidiaDevice, inside: str) -> Iterable[Finding]:
    if inside:
        return
    for each in device.get("processes") or ():
        pid = int(each["pid"])
        if _state(machine, pid) == "Z":
            held = each.get("memory_bytes") or 0
            yield Finding(
                "device_processes", "warning",
                Words(
                    f"A dead process holds memory of GPU {device.index}.",
                    f"已结束的进程仍占用 GPU {device.index} 的显存。",
                ),
                Words(
                    f"Process {pid} ({each.get('name') or '?'}) is a zombie with "
                    f"{held / 2**30:.1f} GiB.",
                    f"进程 {pid}（{each.get('name') or '?'}）是僵尸进程，占用 "
                    f"{held / 2**30:.1f} GiB。",
                ),
                Words("That memory is lost to all others.", "其他进程用不到这部分显存。"),
                Words("End its parent, or restart the container.", "结束其父进程，或重启容器。"),
                (f"ps -o ppid= -p {pid}   # then: kill <that number>",), _BY, device.index,
                {"pid": pid, "memory_bytes": held},
            )  # fmt: skip


def _held(device: NvidiaDevice, inside: str) -> Iterable[Finding]:
    used, total = device.number("memory", "used_bytes"), device.number("memory", "total_bytes")
    if used is None or total is None:
        return
    listed = device.get("processes")
    if used <= max(_RESERVED_BYTES, _RESERVED_SHARE * total):
        return
    name, size = gpus([device.index]), f"{used / 2**30:.1f} of {total / 2**30:.0f} GiB"
    size_zh = f"{used / 2**30:.1f}/{total / 2**30:.0f} GiB"
    values: Values = {
        "used_bytes": used, "processes": None if listed is None else len(listed),
    }  # fmt: skip
    if listed:
        who = ", ".join(_who(each) for each in listed[:4])
        yield Finding(
            "device_processes", "note",
            Words(f"{name.en} is in use.", f"{name.zh} 正在被使用。"),
            Words(f"{size}: {who}.", f"{size_zh}：{who}。"),
            Words(
                "Your work shares it: less memory, longer steps.",
                "与其共享：显存更少，步时更长。",
            ),
            known_by=_BY, device=device.index, values=values,
        )  # fmt: skip
        return
    yield _nobody(device, inside, Words(size, size_zh), values)


def _nobody(device: NvidiaDevice, inside: str, size: Words, values: Values) -> Finding:
    name, listed = gpus([device.index]), device.get("processes")
    owner = (
        Words("Windows", "Windows") if inside == "wsl" else Words("another container", "另一个容器")
    )
    told = Words(
        f"{size.en}, and no process is listed"
        + (f": it may belong to {owner.en}." if inside else "."),
        f"{size.zh}，但没有列出进程" + (f"：可能属于{owner.zh}。" if inside else "。"),
    )
    return Finding(
        "device_processes", "note" if inside or listed is None else "warning",
        Words(
            f"Memory of {name.en} is held by nobody listed.",
            f"{name.zh} 的显存被未列出者占用。",
        ),
        told,
        Words("That memory is lost to your work.", "你的任务用不到这部分显存。"),
        None
        if inside
        else Words(
            "Look for processes that hold the device's file; if there are none, reset it.",
            "查找打开设备文件的进程；若没有，则重置设备。",
        ),
        () if inside else (f"sudo fuser -v /dev/nvidia{device.index}",), _BY, device.index, values,
    )  # fmt: skip


def _who(each: dict[str, object]) -> str:
    name = str(each.get("name") or "?").rpartition("/")[2]
    held = each.get("memory_bytes")
    size = f", {held / 2**30:.1f} GiB" if isinstance(held, int) else ""
    return f"{each['pid']} ({name}{size})"
