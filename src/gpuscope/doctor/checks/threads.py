"""Threads of the host against the processors that this process may use.

Sources: PyTorch, "CPU threading" (one thread a physical core by default, OMP_NUM_THREADS sets it);
torchrun sets OMP_NUM_THREADS=1 where it starts several processes and nothing is set.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.topology.processors import allowed_cpus, cpu_quota, usable_cpus
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_NAMES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_BY = "environment, /proc/self/status, /sys/fs/cgroup"
_WHY = Words(
    "Threads that share a processor interrupt each other: input and the host's own operators get "
    "slower, and the thread that feeds the device waits.",
    "多个线程争用处理器：数据输入和主机算子变慢，给设备下发任务的线程也要等待。",
)


@check("threads", "settings", "Threads of the host against the processors that may be used")
def threads(machine: Machine) -> Iterable[Finding]:
    """Compare what is set, or what PyTorch chose, with what is there."""
    cpus = usable_cpus(machine)
    if cpus is None:
        return
    told = [(n, int(v)) for n in _NAMES if (v := machine.variable(n) or "").strip().isdigit()]
    chosen = (torch_facts(machine) or {}).get("threads")
    devices = len(nvidia_devices(machine))
    if told:
        name, count = told[0]
        if count > cpus:
            yield _many(machine, f"{name}={count}", count, cpus)
            return
        if count == 1 and cpus >= 4 * max(1, devices):
            yield _one(name, cpus)
            return
        if devices > 1 and count * devices > 1.5 * cpus:
            yield _together(f"{name}={count}", count, devices, cpus)
            return
    elif isinstance(chosen, int) and chosen > cpus:
        yield _many(machine, f"torch.get_num_threads() = {chosen}", chosen, cpus)
        return
    said = f"{told[0][0]}={told[0][1]}" if told else f"{chosen or '?'}"
    yield Finding(
        "threads", "ok", Words("Threads fit the processors.", "线程数与处理器相符。"),
        Words(f"{said} threads, {cpus} processors.", f"线程 {said}，处理器 {cpus} 个。"),
        known_by=_BY, values={"usable_cpus": cpus, "threads": told[0][1] if told else chosen},
    )  # fmt: skip


def _many(machine: Machine, said: str, count: int, cpus: int) -> Finding:
    quota, allowed = cpu_quota(machine), allowed_cpus(machine)
    limited = quota is not None and allowed is not None and quota < len(allowed)
    en = f" (the container's limit; {len(allowed or ())} are visible)" if limited else ""
    zh = f"（容器限额；可见 {len(allowed or ())} 个）" if limited else ""
    return Finding(
        "threads", "warning",
        Words("More threads than processors.", "线程数多于处理器。"),
        Words(f"{said}; {cpus} processors may be used{en}.", f"{said}；可用处理器 {cpus} 个{zh}。"),
        _WHY, Words("Set as many as there are.", "设为与处理器数相同。"),
        (f"export OMP_NUM_THREADS={cpus}",), _BY, None,
        {"threads": count, "usable_cpus": cpus, "quota_cpus": quota},
    )  # fmt: skip


def _one(name: str, cpus: int) -> Finding:
    return Finding(
        "threads", "note",
        Words("Work on the host uses one thread.", "主机端计算只用一个线程。"),
        Words(f"{name}=1; {cpus} processors may be used.", f"{name}=1；可用处理器 {cpus} 个。"),
        Words(
            "torchrun sets this. Operators on the host (input, optimizer offloading) could use "
            "more.",
            "torchrun 会这样设置。主机端算子（数据处理、优化器卸载）本可使用更多线程。",
        ),
        None, (f"export OMP_NUM_THREADS={max(1, cpus // 2)}",), _BY, None,
        {"threads": 1, "usable_cpus": cpus},
    )  # fmt: skip


def _together(said: str, count: int, devices: int, cpus: int) -> Finding:
    each = max(1, cpus // devices)
    return Finding(
        "threads", "note",
        Words(
            f"{devices} processes, one a device, would use more threads than processors.",
            f"若每设备一个进程，{devices} 个进程的线程数将超过处理器数。",
        ),
        Words(
            f"{said}: {count * devices} threads on {cpus} processors.",
            f"{said}：共 {count * devices} 个线程，处理器 {cpus} 个。",
        ),
        _WHY, None, (f"export OMP_NUM_THREADS={each}   # for one process a device",), _BY, None,
        {"threads": count, "devices": devices, "usable_cpus": cpus},
    )  # fmt: skip
