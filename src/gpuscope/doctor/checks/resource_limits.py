"""What the control group lets this process have: processors, memory; was it cut off?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.containers import cpus_of
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

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


@check("resource_limits", "container", "Processors and memory that this process may use")
def run(machine: Machine) -> Iterator[Finding]:
    """Compare the limits with the devices; tell of processes killed and time taken away."""
    quota, allowed = cpu_limit(machine), allowed_cpus(machine)
    limits = [float(each) for each in (quota, allowed) if each]
    cpus = min(limits) if limits else None
    memory, total = memory_limit(machine), _host_memory(machine)
    usable = min(each for each in (memory, total) if each) if memory or total else None
    values = {
        "cpus": cpus, "cpu_quota": quota, "memory_limit_bytes": memory,
        "host_memory_bytes": total,
    }  # fmt: skip
    bad = [
        finding
        for finding in (
            _killed(machine, memory), _throttled(machine, quota), _few(machine, cpus, quota),
            _little(machine, usable),
        )
        if finding is not None
    ]  # fmt: skip
    yield from bad
    if cpus is None and usable is None:
        return
    if not any(finding.severity == "warning" for finding in bad):
        gib = "?" if usable is None else f"{usable / 2**30:.0f}"
        limited = Words(" (limited)", "（有限制）") if quota or memory else Words("", "")
        count = "?" if cpus is None else f"{cpus:g}"
        yield Finding(
            "resource_limits", "ok", Words("Processors and memory suffice.", "处理器与内存足够。"),
            Words(
                f"{count} processors, {gib} GiB{limited.en}",
                f"{count} 个处理器，{gib} GiB{limited.zh}",
            ),
            known_by=_BY, values=values,
        )  # fmt: skip


def _killed(machine: Machine, memory: int | None) -> Finding | None:
    killed = _counts(machine.text(f"{_V2}/memory.events")).get("oom_kill") or _counts(
        machine.text(f"{_V2}/memory/memory.oom_control")
    ).get("oom_kill")
    if not killed:
        return None
    limit = f"{memory / 2**30:.1f} GiB" if memory else "?"
    return Finding(
        "resource_limits", "warning",
        Words(
            "Processes here were killed for want of host memory.", "这里有进程因主机内存不足被杀。"
        ),
        Words(
            f"{killed} killed since the start; the limit is {limit}.",
            f"启动以来 {killed} 个被杀；上限为 {limit}。",
        ),
        Words(
            "A worker that vanishes, 'exit code -9', a hang of the other ranks.",
            "表现为工作进程消失、'exit code -9'、其他 rank 挂起。",
        ),
        Words(
            "Ask for more memory, or load with fewer workers.", "申请更多内存，或减少加载进程。"
        ),
        known_by="memory.events", values={"oom_kills": killed},
    )  # fmt: skip


def _throttled(machine: Machine, quota: float | None) -> Finding | None:
    counts = _counts(machine.text(f"{_V2}/cpu.stat") or machine.text(f"{_V2}/cpu/cpu.stat"))
    periods, cut = counts.get("nr_periods", 0), counts.get("nr_throttled", 0)
    if quota is None or periods < 100 or cut < _THROTTLED * periods:
        return None
    return Finding(
        "resource_limits", "warning",
        Words("The processors are taken away at times.", "处理器时间不时被限制。"),
        Words(
            f"{cut / periods:.0%} of the scheduler's periods were cut short; the quota is "
            f"{quota:g} processors.",
            f"{cut / periods:.0%} 的调度周期被截短；配额为 {quota:g} 个处理器。",
        ),
        Words("Launches come in bursts, and the GPU waits.", "内核启动时断时续，GPU 在等待。"),
        Words(
            "Ask for more processors, or use fewer threads.", "申请更多处理器，或减少线程数。"
        ),
        (f"export OMP_NUM_THREADS={max(1, int(quota))}",), "cpu.stat",
        values={"throttled_share": cut / periods},
    )  # fmt: skip


def _few(machine: Machine, cpus: float | None, quota: float | None) -> Finding | None:
    devices = len(nvidia_devices(machine))
    if not devices or cpus is None or cpus >= LEAST_CPUS_A_GPU * devices:
        return None
    return Finding(
        "resource_limits", "warning",
        Words("Few processors for the GPUs.", "相对 GPU 数量，处理器过少。"),
        Words(
            f"{cpus:g} processors for {devices} GPUs.", f"{cpus:g} 个处理器对应 {devices} 块 GPU。"
        ),
        Words(
            "Python, launches and data loading share them: the GPUs wait.",
            "Python、内核启动与数据加载共用它们：GPU 会等待。",
        ),
        Words(
            "Ask for at least 4 a GPU.", "每块 GPU 至少申请 4 个。"
        ),
        ("docker run --cpus ...",) if quota else ("taskset -p $$",), _BY,
        values={"cpus": cpus},
    )  # fmt: skip


def _little(machine: Machine, usable: int | None) -> Finding | None:
    held = sum(int(d.number("memory", "total_bytes") or 0) for d in nvidia_devices(machine))
    if not usable or not held or usable >= held:
        return None
    return Finding(
        "resource_limits", "note",
        Words("Less host memory than device memory.", "主机内存少于显存。"),
        Words(
            f"{usable / 2**30:.0f} GiB for {held / 2**30:.0f} GiB on the devices.",
            f"主机 {usable / 2**30:.0f} GiB，设备共 {held / 2**30:.0f} GiB。",
        ),
        fix=Words(
            "Load checkpoints in shards, or straight to the device.",
            "分片加载检查点，或直接加载到设备。",
        ),
        known_by=_BY, values={"usable_memory_bytes": usable},
    )  # fmt: skip
