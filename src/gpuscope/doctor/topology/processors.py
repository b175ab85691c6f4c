"""Processors and memory nodes of the host, and those that this process may use."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.topology.types import NumaNode

_NODES = "/sys/devices/system/node"


def cpu_list(text: str) -> frozenset[int]:
    """Read a list as the kernel writes it: "0-3,8" is 0, 1, 2, 3, 8."""
    found: set[int] = set()
    for part in text.strip().split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match:
            found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)


def nodes(machine: Machine) -> tuple[NumaNode, ...]:
    """Return the memory nodes; one without number of memory where only the processors are told."""
    found = []
    for name in machine.entries(_NODES) or ():
        match = re.fullmatch(r"node(\d+)", name)
        if match:
            cpus = cpu_list(machine.text(f"{_NODES}/{name}/cpulist") or "")
            evidence = machine.text(f"{_NODES}/{name}/meminfo") or ""
            total = re.search(r"MemTotal:\s+(\d+) kB", evidence)
            found.append(NumaNode(int(match[1]), cpus, int(total[1]) * 1024 if total else None))
    if len(found) == 1:  # memory that is added later (virtual machines) is missing from the node's
        whole = re.search(r"^MemTotal:\s+(\d+) kB", machine.text("/proc/meminfo") or "", re.M)
        if whole:
            found = [replace(found[0], memory_bytes=int(whole[1]) * 1024)]
    if not found and (online := machine.text("/sys/devices/system/cpu/online")):
        found.append(NumaNode(0, cpu_list(online)))
    return tuple(sorted(found, key=lambda n: n.index))


def allowed_cpus(machine: Machine) -> frozenset[int] | None:
    """Return the processors that this process may use; None if not told."""
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)", machine.text("/proc/self/status") or "", re.M)
    return cpu_list(match[1]) if match else None


def cpu_quota(machine: Machine) -> float | None:
    """Return how many processors' time the control groups of this process allow; None: no limit.

    Linux kernel, Documentation/admin-guide/cgroup-v2 (cpu.max: quota and period in microseconds)
    and scheduler/sched-bwc (version 1: cpu.cfs_quota_us, cpu.cfs_period_us).
    """
    limits = []
    for folder in _groups(machine):
        words = (machine.text(f"{folder}/cpu.max") or "").split()
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]):
            limits.append(int(words[0]) / int(words[1]))
    for base in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"):
        quota = (machine.text(f"{base}/cpu.cfs_quota_us") or "").strip()
        period = (machine.text(f"{base}/cpu.cfs_period_us") or "").strip()
        if quota.isdigit() and period.isdigit() and int(period):
            limits.append(int(quota) / int(period))
    return min(limits) if limits else None


def _groups(machine: Machine) -> list[str]:
    """Folders of this process's control group and of those above it."""
    own = re.search(r"^0::(/\S*)", machine.text("/proc/self/cgroup") or "", re.M)
    parts = [p for p in (own[1] if own else "/").split("/") if p and p != ".."]
    return ["/".join(["/sys/fs/cgroup", *parts[:n]]) for n in range(len(parts), -1, -1)]


def usable_cpus(machine: Machine) -> int | None:
    """Return how many processors this process can keep busy; None if unknown."""
    allowed = allowed_cpus(machine)
    quota = cpu_quota(machine)
    if allowed is None:
        return None if quota is None else max(1, math.floor(quota))
    return len(allowed) if quota is None else max(1, min(len(allowed), math.floor(quota)))
