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
from gpuscope.document.text import Text

_NAMES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_BY = "environment, /proc/self/status, /sys/fs/cgroup"
_WHY = Text(
    "Threads that share a processor interrupt each other: input and the host's own operators get "
    "slower, and the thread that feeds the device waits."
)


@check("threads", "settings", Text("Threads of the host against the processors that may be used"))
def threads(machine: Machine) -> Iterable[Finding]:
    """Compare what is set, or what PyTorch chose, with what is there."""
    cpus = usable_cpus(machine)
    if cpus is None:
        return
    known = [(n, int(v)) for n in _NAMES if (v := machine.variable(n) or "").strip().isdigit()]
    chosen = (torch_facts(machine) or {}).get("threads")
    devices = len(nvidia_devices(machine))
    if known:
        name, count = known[0]
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
    said = f"{known[0][0]}={known[0][1]}" if known else f"{chosen or '?'}"
    yield Finding(
        "threads",
        "ok",
        Text("Threads fit the processors."),
        Text("{said} threads, {cpus} processors.", said=said, cpus=cpus),
        known_by=_BY,
        values={"usable_cpus": cpus, "threads": known[0][1] if known else chosen},
    )


def _many(machine: Machine, said: str, count: int, cpus: int) -> Finding:
    quota, allowed = cpu_quota(machine), allowed_cpus(machine)
    limited = quota is not None and allowed is not None and quota < len(allowed)
    evidence = Text("{said}; {cpus} processors may be used.", said=said, cpus=cpus)
    if limited:
        evidence = Text(
            "{said}; {cpus} processors may be used (the container's limit; {visible} are visible).",
            said=said,
            cpus=cpus,
            visible=len(allowed or ()),
        )
    return Finding(
        "threads",
        "warning",
        Text("More threads than processors."),
        evidence,
        _WHY,
        Text("Set as many as there are."),
        (f"export OMP_NUM_THREADS={cpus}",),
        _BY,
        None,
        {"threads": count, "usable_cpus": cpus, "quota_cpus": quota},
    )


def _one(name: str, cpus: int) -> Finding:
    return Finding(
        "threads",
        "note",
        Text("Work on the host uses one thread."),
        Text("{name}=1; {cpus} processors may be used.", name=name, cpus=cpus),
        Text(
            "torchrun sets this. Operators on the host (input, optimizer offloading) could use "
            "more."
        ),
        None,
        (f"export OMP_NUM_THREADS={max(1, cpus // 2)}",),
        _BY,
        None,
        {"threads": 1, "usable_cpus": cpus},
    )


def _together(said: str, count: int, devices: int, cpus: int) -> Finding:
    each = max(1, cpus // devices)
    return Finding(
        "threads",
        "note",
        Text(
            "{devices} processes, one a device, would use more threads than processors.",
            devices=devices,
        ),
        Text(
            "{said}: {count} threads on {cpus} processors.",
            said=said,
            count=count * devices,
            cpus=cpus,
        ),
        _WHY,
        None,
        (f"export OMP_NUM_THREADS={each}   # for one process a device",),
        _BY,
        None,
        {"threads": count, "devices": devices, "usable_cpus": cpus},
    )
