"""Xid and SXid lines of NVIDIA's driver in the kernel log: each number's meaning and advice.

Sources: NVIDIA, XID Errors (docs.nvidia.com/deploy/xid-errors); NVIDIA, Fabric Manager User Guide
(SXid: errors of NVSwitches, "fatal" or "non-fatal").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gpuscope.doctor.kernel_log import KernelLog, device_at, kernel_log
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding, Severity
from gpuscope.explain.errors.xid_codes import REMEDIES, WHERE, XID_LINE, XIDS, Where, xid_where
from gpuscope.explain.types import Words

_SEVERITY: dict[Where, Severity] = {
    "hardware": "error", "driver": "warning", "either": "warning", "program": "note",
    "news": "note",
}  # fmt: skip
_MILD = frozenset({63, 92, 94, 121})
"""Errors of the hardware after which the device still works."""


@check("kernel_log_xid", "health", "Xid lines of NVIDIA's driver in the kernel log")
def kernel_log_xid(machine: Machine) -> Iterable[Finding]:
    """Count Xid lines by device and number."""
    log = kernel_log(machine)
    counted: Counter[tuple[str, int]] = Counter()
    last: dict[tuple[str, int], str] = {}
    for line in log.lines:
        for match in XID_LINE.finditer(line):
            if "SXid" not in line:
                key = match["bus"], int(match["code"])
                counted[key] += 1
                last[key] = line
    for (bus, code), times in counted.items():
        yield _xid(log, device_at(machine, bus), bus, code, times, last[bus, code])
    switches = log.matching(r"\bSXid\b")
    if switches:
        yield _switch(log, switches)
    if nvidia_devices(machine) and not counted and not switches:
        yield _clear(log)


def _xid(log: KernelLog, device: int | None, bus: str, code: int, times: int, line: str) -> Finding:
    where = xid_where(code)
    known = XIDS.get(code)
    severity: Severity = _SEVERITY[where]
    if code in _MILD:
        severity = "warning"
    name = f"GPU {device}" if device is not None else bus
    meaning = known.meaning if known else Words("not in the table here", "此处无说明")
    several = f", {times} times" if times > 1 else ""
    several_zh = f"，共 {times} 次" if times > 1 else ""
    advice = REMEDIES[where]
    return Finding(
        "kernel_log_xid", severity,
        Words(
            f"{name} reported Xid {code}: {meaning.en}.",
            f"{name} 报告 Xid {code}：{meaning.zh}。",
        ),
        Words(
            f"In the kernel log{several}. Last: {line[:200]}",
            f"内核日志中{several_zh or '出现 1 次'}。最后一条：{line[:200]}",
        ),
        Words(
            f"Where to look: {WHERE[where].en}.", f"排查方向：{WHERE[where].zh}。"
        ),
        Words(" ".join(a.en for a in advice), "".join(a.zh for a in advice)),
        ("sudo dmesg -T | grep -i xid",), f"kernel log ({log.source})", device,
        {"xid": code, "times": times, "pci": bus},
    )  # fmt: skip


def _switch(log: KernelLog, lines: list[str]) -> Finding:
    fatal = any("fatal" in line.lower() and "non-fatal" not in line.lower() for line in lines)
    return Finding(
        "kernel_log_xid", "error" if fatal else "warning",
        Words("An NVSwitch reported errors (SXid).", "NVSwitch 报告错误（SXid）。"),
        Words(
            f"{len(lines)} lines. Last: {lines[-1][:200]}",
            f"共 {len(lines)} 条。最后一条：{lines[-1][:200]}",
        ),
        Words("Traffic over NVLink stops or slows.", "NVLink 流量中断或变慢。"),
        Words(
            "After a fatal one: reset all devices and switches together, or restart the host.",
            "若为致命错误：一起重置全部设备与交换芯片，或重启主机。",
        ),
        ("sudo dmesg -T | grep -i sxid",), f"kernel log ({log.source})", None,
        {"sxid_lines": len(lines)},
    )  # fmt: skip


def _clear(log: KernelLog) -> Finding:
    if log.source is None:
        return Finding(
            "kernel_log_xid", "unknown",
            Words("The kernel log may not be read.", "无权读取内核日志。"),
            Words(
                f"Errors of devices (Xid) would be there. {log.error[:200]}",
                f"设备错误（Xid）会记录在其中。{log.error[:200]}",
            ),
            commands=("sudo dmesg -T | grep -iE 'xid|nvrm'",), known_by="dmesg, journalctl -k",
        )  # fmt: skip
    return Finding(
        "kernel_log_xid", "ok", Words("No Xid in the kernel log.", "内核日志中没有 Xid。"),
        Words(f"None, read by {log.source}.", f"没有，读取自 {log.source}。"),
        known_by=str(log.source),
        values={"xid_lines": 0},
    )  # fmt: skip
