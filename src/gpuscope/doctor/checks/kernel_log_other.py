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
from gpuscope.document.text import Text, plural

_KILLED = r"Out of memory: Killed|oom-kill:|Memory cgroup out of memory"
_AMD = r"amdgpu.*(GPU reset|ring .* timeout|hung|page fault|Fatal)"
_INTEL = r"\b(i915|xe) .*(GPU HANG|hang|reset|CAT error)"
_RAS = r"amdgpu.*(uncorrectable|\bUE\b)|EDAC .*\bUE\b|mce: .*(?:Uncorrected|Hardware Error)"


@check(
    "kernel_log_other", "health", Text("Resets, bad memory and killed processes in the kernel log")
)
def kernel_log_other(machine: Machine) -> Iterable[Finding]:
    """Say nothing where the log says nothing."""
    log = kernel_log(machine)
    yield from _told(
        log,
        _AMD,
        "warning",
        Text("An AMD device hung or was reset."),
        Text("The program that ran on it ended with an error; often a kernel's illegal access."),
        "sudo dmesg -T | grep -i amdgpu",
    )
    yield from _told(
        log,
        _INTEL,
        "warning",
        Text("An Intel device hung or was reset."),
        Text("The program that ran on it ended with an error."),
        "sudo dmesg -T | grep -iE 'i915|xe '",
    )
    yield from _told(
        log,
        _RAS,
        "error",
        Text("Memory errors that could not be corrected."),
        Text("Results may be wrong, processes end."),
        "sudo dmesg -T | grep -iE 'edac|mce|ras'",
    )
    yield from _killed(log)


def _told(
    log: KernelLog, pattern: str, severity: Severity, title: Text, why: Text, command: str
) -> Iterable[Finding]:
    lines = log.matching(pattern)
    if lines:
        yield Finding(
            "kernel_log_other",
            severity,
            title,
            plural(
                "{count} line. Last: {last}",
                "{count} lines. Last: {last}",
                len(lines),
                last=lines[-1][:200],
            ),
            why,
            None,
            (command,),
            f"kernel log ({log.source})",
            None,
            {"lines": len(lines)},
        )


def _killed(log: KernelLog) -> Iterable[Finding]:
    lines = log.matching(_KILLED)
    if not lines:
        return
    names = {m[1] for line in lines if (m := re.search(r"Killed process \d+ \(([^)]+)\)", line))}
    who = ", ".join(sorted(names)[:4])
    yield Finding(
        "kernel_log_other",
        "note",
        Text("The kernel ended processes because memory ran out."),
        plural("{count} line: {who}.", "{count} lines: {who}.", len(lines), who=who)
        if who
        else plural("{count} line.", "{count} lines.", len(lines)),
        Text("A worker or rank that vanished without a message may be one of them."),
        None,
        ("sudo dmesg -T | grep -i 'out of memory'",),
        f"kernel log ({log.source})",
        None,
        {"lines": len(lines)},
    )
