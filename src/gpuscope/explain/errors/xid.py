"""Xid lines of NVIDIA's kernel driver: what the number means, and whether it is the hardware.

NVIDIA, XID Errors (docs.nvidia.com/deploy/xid-errors), catalog of Xid events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.registry import error_reader
from gpuscope.explain.errors.types import Certainty, Diagnosis
from gpuscope.explain.types import Column, Fact, Table, Words

Where = Literal["program", "hardware", "driver", "either", "news"]

_LINE = re.compile(
    r"Xid\s*\((?:PCI:)?(?P<bus>[0-9a-fA-F:.]+)\)\s*:\s*(?P<code>\d{1,3})(?:\s*,\s*(?P<rest>[^\n]{0,200}))?"
)
_PROCESS = re.compile(r"pid='?(?P<pid>\d+|<unknown>)'?(?:, name=(?P<name>[^,]+))?")

_WORDS: Mapping[Where, Words] = {
    "program": Words("mostly the program", "多半是程序"),
    "hardware": Words("the hardware", "硬件"),
    "driver": Words("the driver or its firmware", "驱动或固件"),
    "either": Words("program or hardware", "程序或硬件"),
    "news": Words("follows from another one", "由其他错误引起"),
}


class _Xid(NamedTuple):
    where: Where
    meaning: Words


_CODES: Mapping[int, _Xid] = {
    8: _Xid("either", Words("a channel stopped moving", "通道停止推进")),
    11: _Xid("either", Words("a damaged command stream", "命令流损坏")),
    13: _Xid(
        "program",
        Words(
            "a kernel raised an exception (illegal instruction or address, an assertion)",
            "内核引发异常（非法指令或地址、断言）",
        ),
    ),
    31: _Xid(
        "program",
        Words(
            "a kernel reached an address that is not mapped (MMU fault)",
            "内核访问了未映射的地址（MMU 故障）",
        ),
    ),
    32: _Xid(
        "either",
        Words(
            "a damaged command buffer; PCIe may be the cause", "命令缓冲区损坏，可能与 PCIe 有关"
        ),
    ),
    38: _Xid("driver", Words("the driver's firmware failed", "驱动固件错误")),
    43: _Xid(
        "program",
        Words("a channel was stopped after an error of the program", "程序出错后通道被停止"),
    ),
    45: _Xid(
        "news",
        Words(
            "work was taken away: the program ended or another Xid came before",
            "工作被清除：程序结束，或此前有其他 Xid",
        ),
    ),
    48: _Xid(
        "hardware",
        Words(
            "an uncorrectable error of the memory (double-bit ECC)",
            "显存不可纠正错误（双比特 ECC）",
        ),
    ),
    56: _Xid("driver", Words("an error of the display engine", "显示引擎错误")),
    61: _Xid("driver", Words("the device's microcontroller warns", "设备微控制器警告")),
    62: _Xid("either", Words("the device's microcontroller halted", "设备微控制器停机")),
    63: _Xid(
        "hardware",
        Words(
            "a bad memory row was noted for replacement: reset the device soon",
            "已登记替换坏的显存行：请尽快重置设备",
        ),
    ),
    64: _Xid("hardware", Words("a bad memory row could not be replaced", "坏的显存行无法替换")),
    68: _Xid("either", Words("an exception of the video decoder", "视频解码器异常")),
    69: _Xid("either", Words("an exception of a compute class", "计算类异常")),
    74: _Xid("hardware", Words("an error of an NVLink", "NVLink 错误")),
    79: _Xid(
        "hardware",
        Words(
            "the device fell off the bus: power, heat, PCIe slot or riser",
            "设备从总线上脱落：供电、温度、PCIe 插槽或转接卡",
        ),
    ),
    92: _Xid("hardware", Words("many correctable memory errors", "可纠正的显存错误过多")),
    94: _Xid(
        "hardware",
        Words(
            "an uncorrectable memory error, contained: only the named program ends",
            "显存不可纠正错误，已被隔离：只影响该程序",
        ),
    ),
    95: _Xid(
        "hardware",
        Words(
            "an uncorrectable memory error, not contained: reset the device",
            "显存不可纠正错误，未能隔离：需重置设备",
        ),
    ),
    109: _Xid("either", Words("a context switch took too long", "上下文切换超时")),
    110: _Xid("hardware", Words("a security fault: restart the machine", "安全故障：需重启机器")),
    119: _Xid("driver", Words("the device's GSP firmware did not answer", "设备的 GSP 固件无响应")),
    120: _Xid("driver", Words("the device's GSP firmware failed", "设备的 GSP 固件出错")),
    121: _Xid(
        "hardware",
        Words("an error of the link to the processor (C2C)", "与处理器的互连错误（C2C）"),
    ),
    123: _Xid("driver", Words("the power management unit did not answer", "电源管理单元无响应")),
    140: _Xid("hardware", Words("an ECC error that was not recovered", "未恢复的 ECC 错误")),
    143: _Xid("hardware", Words("the device did not initialise", "设备初始化失败")),
    149: _Xid("hardware", Words("an NVLink error (NETIR)", "NVLink 错误（NETIR）")),
    154: _Xid(
        "news",
        Words("states what to do to recover (reset, reboot)", "说明恢复所需的动作（重置、重启）"),
    ),
}

_REMEDIES: Mapping[Where, tuple[Words, ...]] = {
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
_SEVERITY: Mapping[Where, int] = {
    "hardware": 0, "driver": 1, "either": 2, "program": 2, "news": 3,
}  # fmt: skip


@error_reader
def read_xid(log: Log) -> Diagnosis | None:
    """Read Xid lines; the gravest one is explained, all are listed."""
    found = list(_LINE.finditer(log.text))
    fallen = log.search(r"GPU has fallen off the bus")
    if not found and fallen is None:
        return None
    if not found and fallen is not None:
        return _diagnosis(log, 79, "", fallen, [])
    gravest = min(found, key=lambda m: (_SEVERITY[_where(int(m["code"]))], m.start()))
    return _diagnosis(log, int(gravest["code"]), gravest["rest"] or "", gravest, found)


def _where(code: int) -> Where:
    return _CODES[code].where if code in _CODES else "either"


def _diagnosis(
    log: Log, code: int, rest: str, match: re.Match[str], found: list[re.Match[str]]
) -> Diagnosis:
    known = _CODES.get(code)
    where = _where(code)
    certainty: Certainty = "likely" if known and where in ("hardware", "driver") else "possible"
    if known is None:
        cause = Words(
            f"Xid {code} is not in the table here; NVIDIA's catalog lists it.",
            f"此处没有 Xid {code} 的说明；请查阅 NVIDIA 的目录。",
        )
    else:
        cause = Words(
            f"Xid {code}: {known.meaning.en}. Where to look: {_WORDS[where].en}.",
            f"Xid {code}：{known.meaning.zh}。排查方向：{_WORDS[where].zh}。",
        )
    return Diagnosis(
        "xid",
        Words(f"The driver reports Xid {code}", f"驱动报告 Xid {code}"),
        cause,
        certainty,
        _REMEDIES[where],
        log.line_of(match),
        5 if where == "hardware" else 18,
        _facts(rest, match),
        _table(found),
        ("sudo dmesg -T | grep -i xid", "nvidia-smi -q"),
        ("NVIDIA, XID Errors (docs.nvidia.com/deploy/xid-errors), catalog of Xid events.",),
    )


def _facts(rest: str, match: re.Match[str]) -> tuple[Fact, ...]:
    facts = []
    bus = match.groupdict().get("bus")
    if bus:
        facts.append(Fact(Words("device (PCI)", "设备（PCI）"), bus))
    process = _PROCESS.search(rest)
    if process:
        name = (process["name"] or "").strip()
        facts.append(Fact(Words("process", "进程"), f"{process['pid']} {name}".strip()))
    if rest:
        facts.append(Fact(Words("the driver adds", "驱动的补充"), rest.strip()[:160]))
    return tuple(facts)


def _table(found: list[re.Match[str]]) -> tuple[Table, ...]:
    counted: dict[tuple[int, str], int] = {}
    for match in found:
        key = int(match["code"]), match["bus"]
        counted[key] = counted.get(key, 0) + 1
    if len(counted) < 2:
        return ()
    unknown = Words("see NVIDIA's catalog", "见 NVIDIA 目录")
    rows = tuple(
        (
            f"Xid {code}",
            bus,
            count,
            _CODES[code].meaning if code in _CODES else unknown,
            _WORDS[_where(code)],
        )
        for (code, bus), count in list(counted.items())[:24]
    )
    return (
        Table(
            Words("All Xid lines of this text", "文本中的全部 Xid"),
            (
                Column(Words("code", "编号")),
                Column(Words("device", "设备")),
                Column(Words("times", "次数"), "count"),
                Column(Words("meaning", "含义")),
                Column(Words("where to look", "排查方向")),
            ),
            rows,
        ),
    )
