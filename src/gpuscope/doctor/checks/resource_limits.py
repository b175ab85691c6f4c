"""What the control group lets this process have: processors, memory; was it cut off?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.containers import cpus_of
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text

_V2 = "/sys/fs/cgroup"
_BY = "cgroup; /proc/self/status; /proc/meminfo"

LEAST_CPUS_A_GPU = 2
"""One for Python and the launches, one for loading data: below it a GPU waits."""

_THROTTLED = 0.05
"""Share of the scheduler's periods that were cut short, from which on it is told."""

_UNLIMITED_BYTES = 1 << 60


def cpu_limit(machine: Machine) -> float | None:
    """Return the processors that the control group allows; None for no limit."""
    words = (machine.text(f"{_V2}/cpu.max") or "").split()
    if len(words) != 2:
        words = [
            (machine.text(f"{_V2}/cpu/cpu.cfs_quota_us") or "").strip(),
            (machine.text(f"{_V2}/cpu/cpu.cfs_period_us") or "").strip(),
        ]
    quota, period = words
    if not quota.isdigit() or not period.isdigit() or not int(period):
        return None
    return int(quota) / int(period)


def memory_limit(machine: Machine) -> int | None:
    """Return the bytes that the control group allows; None for no limit."""
    for path in (f"{_V2}/memory.max", f"{_V2}/memory/memory.limit_in_bytes"):
        text = (machine.text(path) or "").strip()
        if text.isdigit() and int(text) < _UNLIMITED_BYTES:
            return int(text)
    return None


def allowed_cpus(machine: Machine) -> int | None:
    """Return how many processors this process may run on; None if not told."""
    for line in (machine.text("/proc/self/status") or "").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return cpus_of(line.partition(":")[2])
    return cpus_of(machine.text("/sys/devices/system/cpu/online"))


def _counts(text: str | None) -> dict[str, int]:
    pairs = (line.split() for line in (text or "").splitlines())
    return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdigit()}


def _host_memory(machine: Machine) -> int | None:
    for line in (machine.text("/proc/meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


@check("resource_limits", "container", Text("Processors and memory that this process may use"))
def run(machine: Machine) -> Iterator[Finding]:
    """Compare the limits with the devices; tell of processes killed and time taken away."""
    quota, allowed = cpu_limit(machine), allowed_cpus(machine)
    limits = [float(each) for each in (quota, allowed) if each]
    cpus = min(limits) if limits else None
    memory, total = memory_limit(machine), _host_memory(machine)
    usable = min(each for each in (memory, total) if each) if memory or total else None
    values = {
        "cpus": cpus,
        "cpu_quota": quota,
        "memory_limit_bytes": memory,
        "host_memory_bytes": total,
    }
    bad = [
        finding
        for finding in (
            _killed(machine, memory),
            _throttled(machine, quota),
            _few(machine, cpus, quota),
            _little(machine, usable),
        )
        if finding is not None
    ]
    yield from bad
    if cpus is None and usable is None:
        return
    if not any(finding.severity == "warning" for finding in bad):
        gib = "?" if usable is None else f"{usable / 2**30:.0f}"
        count = "?" if cpus is None else f"{cpus:g}"
        yield Finding(
            "resource_limits",
            "ok",
            Text("Processors and memory suffice."),
            Text("{count} processors, {gib} GiB (limited)", count=count, gib=gib)
            if quota or memory
            else Text("{count} processors, {gib} GiB", count=count, gib=gib),
            known_by=_BY,
            values=values,
        )


def _killed(machine: Machine, memory: int | None) -> Finding | None:
    killed = _counts(machine.text(f"{_V2}/memory.events")).get("oom_kill") or _counts(
        machine.text(f"{_V2}/memory/memory.oom_control")
    ).get("oom_kill")
    if not killed:
        return None
    limit = f"{memory / 2**30:.1f} GiB" if memory else "?"
    return Finding(
        "resource_limits",
        "warning",
        Text("Processes here were killed for want of host memory."),
        Text("{killed} killed since the start; the limit is {limit}.", killed=killed, limit=limit),
        Text("A worker that vanishes, 'exit code -9', a hang of the other ranks."),
        Text("Ask for more memory, or load with fewer workers."),
        known_by="memory.events",
        values={"oom_kills": killed},
    )


def _throttled(machine: Machine, quota: float | None) -> Finding | None:
    counts = _counts(machine.text(f"{_V2}/cpu.stat") or machine.text(f"{_V2}/cpu/cpu.stat"))
    periods, cut = counts.get("nr_periods", 0), counts.get("nr_throttled", 0)
    if quota is None or periods < 100 or cut < _THROTTLED * periods:
        return None
    return Finding(
        "resource_limits",
        "warning",
        Text("The processors are taken away at times."),
        Text(
            "{cut} of the scheduler's periods were cut short; the quota is {quota} processors.",
            cut=Number(cut / periods, ".0%"),
            quota=Number(quota, "g"),
        ),
        Text("Launches come in bursts, and the GPU waits."),
        Text("Ask for more processors, or use fewer threads."),
        (f"export OMP_NUM_THREADS={max(1, int(quota))}",),
        "cpu.stat",
        values={"throttled_share": cut / periods},
    )


def _few(machine: Machine, cpus: float | None, quota: float | None) -> Finding | None:
    devices = len(nvidia_devices(machine))
    if not devices or cpus is None or cpus >= LEAST_CPUS_A_GPU * devices:
        return None
    return Finding(
        "resource_limits",
        "warning",
        Text("Few processors for the GPUs."),
        Text("{cpus} processors for {devices} GPUs.", cpus=Number(cpus, "g"), devices=devices),
        Text("Python, launches and data loading share them: the GPUs wait."),
        Text("Ask for at least 4 a GPU."),
        ("docker run --cpus ...",) if quota else ("taskset -p $$",),
        _BY,
        values={"cpus": cpus},
    )


def _little(machine: Machine, usable: int | None) -> Finding | None:
    held = sum(int(d.number("memory", "total_bytes") or 0) for d in nvidia_devices(machine))
    if not usable or not held or usable >= held:
        return None
    return Finding(
        "resource_limits",
        "note",
        Text("Less host memory than device memory."),
        Text(
            "{usable} GiB for {held} GiB on the devices.",
            usable=Number(usable / 2**30, ".0f"),
            held=Number(held / 2**30, ".0f"),
        ),
        fix=Text("Load checkpoints in shards, or straight to the device."),
        known_by=_BY,
        values={"usable_memory_bytes": usable},
    )
