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
from gpuscope.document.text import Text, plural, sentences
from gpuscope.explanation.errors.xid_codes import REMEDIES, WHERE, XID_LINE, XIDS, Where, xid_where

_SEVERITY: dict[Where, Severity] = {
    "hardware": "error",
    "driver": "warning",
    "either": "warning",
    "program": "note",
    "news": "note",
}


@check("kernel_log_xid", "health", Text("Xid lines of NVIDIA's driver in the kernel log"))
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
    severity: Severity = "warning" if known and known.usable else _SEVERITY[where]
    name = f"GPU {device}" if device is not None else bus
    meaning = known.meaning if known else Text("not in the table here")
    advice = REMEDIES[where]
    return Finding(
        "kernel_log_xid",
        severity,
        Text("{name} reported Xid {code}: {meaning}.", name=name, code=code, meaning=meaning),
        plural(
            "In the kernel log. Last: {line}",
            "In the kernel log, {count} times. Last: {line}",
            times,
            line=line[:200],
        ),
        Text("Where to look: {where}.", where=WHERE[where]),
        sentences(*advice),
        ("sudo dmesg -T | grep -i xid",),
        f"kernel log ({log.source})",
        device,
        {"xid": code, "times": times, "pci": bus},
    )


def _switch(log: KernelLog, lines: list[str]) -> Finding:
    fatal = any("fatal" in line.lower() and "non-fatal" not in line.lower() for line in lines)
    return Finding(
        "kernel_log_xid",
        "error" if fatal else "warning",
        Text("An NVSwitch reported errors (SXid)."),
        plural(
            "{count} line. Last: {last}",
            "{count} lines. Last: {last}",
            len(lines),
            last=lines[-1][:200],
        ),
        Text("Traffic over NVLink stops or slows."),
        Text("After a fatal one: reset all devices and switches together, or restart the host."),
        ("sudo dmesg -T | grep -i sxid",),
        f"kernel log ({log.source})",
        None,
        {"sxid_lines": len(lines)},
    )


def _clear(log: KernelLog) -> Finding:
    if log.source is None:
        return Finding(
            "kernel_log_xid",
            "unknown",
            Text("The kernel log may not be read."),
            Text("Errors of devices (Xid) would be there. {error}", error=log.error[:200]),
            commands=("sudo dmesg -T | grep -iE 'xid|nvrm'",),
            known_by="dmesg, journalctl -k",
        )
    return Finding(
        "kernel_log_xid",
        "ok",
        Text("No Xid in the kernel log."),
        Text("None, read by {source}.", source=log.source),
        known_by=str(log.source),
        values={"xid_lines": 0},
    )
