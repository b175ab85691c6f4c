"""Tensors on different devices, and AMD's memory faults."""

from __future__ import annotations

import re

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.registry import error_reader
from gpuscope.explain.errors.types import Diagnosis
from gpuscope.explain.types import Fact, Words


@error_reader
def read_device_mismatch(log: Log) -> Diagnosis | None:
    """Read an operator whose inputs are on different devices."""
    found = log.search(
        r"Expected all tensors to be on the same device(?:, but found at least two devices, "
        r"(?P<a>[\w:]+) and (?P<b>[\w:]+))?|Input type \(torch\.cuda\.\w+\) and weight type"
        r"|indices should be either on cpu or on the same device"
    )
    if found is None:
        return None
    place = re.search(
        r"checking argument for argument (\w+) in method (?:wrapper_)?(\w+)", log.text
    )
    facts = []
    if found.groupdict().get("a"):
        facts.append(Fact(Words("devices", "设备"), f"{found['a']}, {found['b']}"))
    if place:
        facts.append(Fact(Words("argument", "参数"), place[1]))
        facts.append(Fact(Words("operator", "算子"), place[2].strip("_")))
    return Diagnosis(
        "device_mismatch",
        Words("Tensors on different devices", "张量位于不同设备"),
        Words(
            "One operator got tensors of two devices: a tensor was made without device=, or a "
            "module or a buffer was not moved.",
            "一个算子收到了两个设备上的张量：某个张量创建时没有指定 device，或某个模块、"
            "缓冲区没有移动。",
        ),
        "certain",
        (
            Words(
                "At that line print x.device of each input; make new tensors with device=x.device.",
                "在该行打印每个输入的 x.device；新建张量时写 device=x.device。",
            ),
            Words(
                "Constants of a module: self.register_buffer(...), then .to(device) moves them "
                "too; layers belong into __init__, lists of them into nn.ModuleList.",
                "模块中的常量用 self.register_buffer(...)，.to(device) 时会一起移动；层要放在 "
                "__init__ 中，层的列表用 nn.ModuleList。",
            ),
        ),
        log.line_of(found),
        22,
        tuple(facts),
    )


@error_reader
def read_memory_fault(log: Log) -> Diagnosis | None:
    """Read AMD's fault of a kernel that reached outside of its memory."""
    found = log.search(
        r"Memory access fault by GPU node-(?P<node>\d+).{0,80}?on address (?P<address>\S+?)\."
        r"(?: Reason: (?P<reason>[^.\n]+))?"
    )
    if found is None:
        return None
    facts = [
        Fact(Words("device (node)", "设备（节点）"), found["node"]),
        Fact(Words("address", "地址"), found["address"]),
    ]
    if found["reason"]:
        facts.append(Fact(Words("reason", "原因"), found["reason"].strip()))
    return Diagnosis(
        "memory_access_fault",
        Words("A kernel reached outside of its memory", "内核访问了非法地址"),
        Words(
            "A kernel on an AMD device used an address that is not mapped: a kernel's mistake, or "
            "a device that this ROCm does not support.",
            "AMD 设备上的内核访问了未映射的地址：内核有误，或该设备不被当前 ROCm 支持。",
        ),
        "possible",
        (
            Words(
                "Run again with AMD_SERIALIZE_KERNEL=3 HIP_LAUNCH_BLOCKING=1: the traceback then "
                "names the right line.",
                "用 AMD_SERIALIZE_KERNEL=3 HIP_LAUNCH_BLOCKING=1 重跑：回溯会指向正确的一行。",
            ),
            Words(
                "Look whether rocminfo's gfx name is supported by your ROCm, and whether "
                "HSA_OVERRIDE_GFX_VERSION is set to another device's.",
                "检查 rocminfo 的 gfx 名称是否受该 ROCm 支持，以及 HSA_OVERRIDE_GFX_VERSION "
                "是否设成了别的设备。",
            ),
        ),
        log.line_of(found),
        25,
        tuple(facts),
        commands=("rocminfo | grep gfx",),
        sources=("AMD ROCm documentation, debugging HIP.",),
    )
