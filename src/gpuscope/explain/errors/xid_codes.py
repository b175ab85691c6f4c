"""Xid numbers of NVIDIA's kernel driver: what each means, whose fault it is, what to do.

NVIDIA, XID Errors (docs.nvidia.com/deploy/xid-errors), catalog of Xid events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from gpuscope.explain.types import Words

Where = Literal["program", "hardware", "driver", "either", "news"]

XID_LINE = re.compile(
    r"Xid\s*\((?:PCI:)?(?P<bus>[0-9a-fA-F:.]+)\)\s*:\s*(?P<code>\d{1,3})(?:\s*,\s*(?P<rest>[^\n]{0,200}))?"
)

WHERE: Mapping[Where, Words] = {
    "program": Words("mostly the program", "多半是程序"),
    "hardware": Words("the hardware", "硬件"),
    "driver": Words("the driver or its firmware", "驱动或固件"),
    "either": Words("program or hardware", "程序或硬件"),
    "news": Words("follows from another one", "由其他错误引起"),
}


class Xid(NamedTuple):
    """What a number stands for: where to look, and in words."""

    where: Where
    meaning: Words


XIDS: Mapping[int, Xid] = {
    8: Xid("either", Words("a channel stopped moving", "通道停止推进")),
    11: Xid("either", Words("a damaged command stream", "命令流损坏")),
    13: Xid(
        "program",
        Words(
            "a kernel raised an exception (illegal instruction or address, an assertion)",
            "内核引发异常（非法指令或地址、断言）",
        ),
    ),
    31: Xid(
        "program",
        Words(
            "a kernel reached an address that is not mapped (MMU fault)",
            "内核访问了未映射的地址（MMU 故障）",
        ),
    ),
    32: Xid(
        "either",
        Words(
            "a damaged command buffer; PCIe may be the cause", "命令缓冲区损坏，可能与 PCIe 有关"
        ),
    ),
    38: Xid("driver", Words("the driver's firmware failed", "驱动固件错误")),
    43: Xid(
        "program",
        Words("a channel was stopped after an error of the program", "程序出错后通道被停止"),
    ),
    45: Xid(
        "news",
        Words(
            "work was taken away: the program ended or another Xid came before",
            "工作被清除：程序结束，或此前有其他 Xid",
        ),
    ),
    48: Xid(
        "hardware",
        Words(
            "an uncorrectable error of the memory (double-bit ECC)",
            "显存不可纠正错误（双比特 ECC）",
        ),
    ),
    56: Xid("driver", Words("an error of the display engine", "显示引擎错误")),
    61: Xid("driver", Words("the device's microcontroller warns", "设备微控制器警告")),
    62: Xid("either", Words("the device's microcontroller halted", "设备微控制器停机")),
    63: Xid(
        "hardware",
        Words(
            "a bad memory row was noted for replacement: reset the device soon",
            "已登记替换坏的显存行：请尽快重置设备",
        ),
    ),
    64: Xid("hardware", Words("a bad memory row could not be replaced", "坏的显存行无法替换")),
    68: Xid("either", Words("an exception of the video decoder", "视频解码器异常")),
    69: Xid("either", Words("an exception of a compute class", "计算类异常")),
    74: Xid("hardware", Words("an error of an NVLink", "NVLink 错误")),
    79: Xid(
        "hardware",
        Words(
            "the device fell off the bus: power, heat, PCIe slot or riser",
            "设备从总线上脱落：供电、温度、PCIe 插槽或转接卡",
        ),
    ),
    92: Xid("hardware", Words("many correctable memory errors", "可纠正的显存错误过多")),
    94: Xid(
        "hardware",
        Words(
            "an uncorrectable memory error, contained: only the named program ends",
            "显存不可纠正错误，已被隔离：只影响该程序",
        ),
    ),
    95: Xid(
        "hardware",
        Words(
            "an uncorrectable memory error, not contained: reset the device",
            "显存不可纠正错误，未能隔离：需重置设备",
        ),
    ),
    109: Xid("either", Words("a context switch took too long", "上下文切换超时")),
    110: Xid("hardware", Words("a security fault: restart the machine", "安全故障：需重启机器")),
    119: Xid("driver", Words("the device's GSP firmware did not answer", "设备的 GSP 固件无响应")),
    120: Xid("driver", Words("the device's GSP firmware failed", "设备的 GSP 固件出错")),
    121: Xid(
        "hardware",
        Words("an error of the link to the processor (C2C)", "与处理器的互连错误（C2C）"),
    ),
    123: Xid("driver", Words("the power management unit did not answer", "电源管理单元无响应")),
    140: Xid("hardware", Words("an ECC error that was not recovered", "未恢复的 ECC 错误")),
    143: Xid("hardware", Words("the device did not initialise", "设备初始化失败")),
    137: Xid("either", Words("an NVLink peer access was refused", "NVLink 点对点访问被拒绝")),
    144: Xid("hardware", Words("an NVLink error (SAW)", "NVLink 错误（SAW）")),
    145: Xid("hardware", Words("an NVLink error (RLW)", "NVLink 错误（RLW）")),
    146: Xid("hardware", Words("an NVLink error (TLW)", "NVLink 错误（TLW）")),
    147: Xid("hardware", Words("an NVLink error (TREX)", "NVLink 错误（TREX）")),
    148: Xid("hardware", Words("an NVLink error (NVLPW_CTRL)", "NVLink 错误（NVLPW_CTRL）")),
    149: Xid("hardware", Words("an NVLink error (NETIR)", "NVLink 错误（NETIR）")),
    150: Xid("hardware", Words("an NVLink error (MSE)", "NVLink 错误（MSE）")),
    154: Xid(
        "news",
        Words("states what to do to recover (reset, reboot)", "说明恢复所需的动作（重置、重启）"),
    ),
}

REMEDIES: Mapping[Where, tuple[Words, ...]] = {
    "program": (
        Words(
            "Treat it as an error of a kernel first: run with CUDA_LAUNCH_BLOCKING=1, then under "
            "compute-sanitizer.",
            "先按内核错误处理：用 CUDA_LAUNCH_BLOCKING=1 运行，再用 compute-sanitizer 检查。",
        ),
        Words(
            "If the same program runs elsewhere and only this device fails, test the device: "
            "dcgmi diag -r 3.",
            "若同一程序在别处正常、只有该设备出错，请检测设备：dcgmi diag -r 3。",
        ),
    ),
    "hardware": (
        Words(
            "Take the job off this device, reset it (nvidia-smi --gpu-reset) or restart the host, "
            "and test it: dcgmi diag -r 3.",
            "把任务移出该设备，重置（nvidia-smi --gpu-reset）或重启主机，并检测：dcgmi diag -r 3。",
        ),
        Words(
            "If it comes again, have it replaced; look at heat, power and PCIe as well.",
            "若再次出现请更换；同时检查温度、供电和 PCIe。",
        ),
    ),
    "driver": (
        Words(
            "Restart the host and update the driver; keep nvidia-bug-report.sh's output.",
            "重启主机并更新驱动；保留 nvidia-bug-report.sh 的输出。",
        ),
    ),
    "either": (
        Words(
            "Run again on another device: if it fails there too it is the program, else this "
            "device.",
            "换一块设备重跑：若同样失败则是程序问题，否则是该设备的问题。",
        ),
    ),
    "news": (
        Words(
            "Look at the Xid lines before this one, and at why the program ended.",
            "查看此前的 Xid，以及程序为何结束。",
        ),
    ),
}
GRAVITY: Mapping[Where, int] = {
    "hardware": 0, "driver": 1, "either": 2, "program": 2, "news": 3,
}  # fmt: skip
"""Lower is graver."""


def xid_where(code: int) -> Where:
    """Return where to look for the cause of a number; "either" for one that is not known."""
    return XIDS[code].where if code in XIDS else "either"
