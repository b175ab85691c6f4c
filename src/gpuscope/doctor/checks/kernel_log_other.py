"""What else the kernel logged: resets of AMD and Intel devices, bad memory, killed processes.

Sources: Linux kernel, drivers amdgpu, i915 and xe (their messages); mm/oom_kill.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuscope.doctor.kernel_log import KernelLog, kernel_log
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding, Severity
from gpuscope.explain.types import Words

_KILLED = r"Out of memory: Killed|oom-kill:|Memory cgroup out of memory"
_AMD = r"amdgpu.*(GPU reset|ring .* timeout|hung|page fault|Fatal)"
_INTEL = r"\b(i915|xe) .*(GPU HANG|hang|reset|CAT error)"
_RAS = r"amdgpu.*(uncorrectable|\bUE\b)|EDAC .*\bUE\b|mce: .*(?:Uncorrected|Hardware Error)"


@check("kernel_log_other", "health", "Resets, bad memory and killed processes in the kernel log")
def kernel_log_other(machine: Machine) -> Iterable[Finding]:
    """Say nothing where the log says nothing."""
    log = kernel_log(machine)
    yield from _told(
        log, _AMD, "warning", Words("An AMD device hung or was reset.", "AMD 设备挂起或被重置。"),
        Words(
            "The program that ran on it ended with an error; often a kernel's illegal access.",
            "其上的程序会出错结束；常见原因是内核的非法访问。",
        ),
        "sudo dmesg -T | grep -i amdgpu",
    )  # fmt: skip
    yield from _told(
        log, _INTEL, "warning",
        Words("An Intel device hung or was reset.", "Intel 设备挂起或被重置。"),
        Words("The program that ran on it ended with an error.", "其上的程序会出错结束。"),
        "sudo dmesg -T | grep -iE 'i915|xe '",
    )  # fmt: skip
    yield from _told(
        log, _RAS, "error",
        Words("Memory errors that could not be corrected.", "存在不可纠正的内存错误。"),
        Words("Results may be wrong, processes end.", "结果可能出错，进程会被终止。"),
        "sudo dmesg -T | grep -iE 'edac|mce|ras'",
    )  # fmt: skip
    yield from _killed(log)


def _told(
    log: KernelLog, pattern: str, severity: Severity, title: Words, why: Words, command: str
) -> Iterable[Finding]:
    lines = log.matching(pattern)
    if lines:
        yield Finding(
            "kernel_log_other", severity, title,
            Words(
                f"{len(lines)} lines. Last: {lines[-1][:200]}",
                f"共 {len(lines)} 行。最后一条：{lines[-1][:200]}",
            ),
            why, None, (command,), f"kernel log ({log.source})", None, {"lines": len(lines)},
        )  # fmt: skip


def _killed(log: KernelLog) -> Iterable[Finding]:
    lines = log.matching(_KILLED)
    if not lines:
        return
    names = {m[1] for line in lines if (m := re.search(r"Killed process \d+ \(([^)]+)\)", line))}
    who = ", ".join(sorted(names)[:4])
    yield Finding(
        "kernel_log_other", "note",
        Words(
            "The kernel ended processes because memory ran out.", "内核曾因内存耗尽终止进程。"
        ),
        Words(
            f"{len(lines)} lines{f': {who}' if who else ''}.",
            f"共 {len(lines)} 行{f'：{who}' if who else ''}。",
        ),
        Words(
            "A worker or rank that vanished without a message may be one of them.",
            "无报错就消失的 worker 或 rank 可能就是其中之一。",
        ),
        None, ("sudo dmesg -T | grep -i 'out of memory'",), f"kernel log ({log.source})", None,
        {"lines": len(lines)},
    )  # fmt: skip
