"""RDMA: whether network cards may write straight into device memory, and into pinned memory.

Sources: NVIDIA, "GPUDirect RDMA" (the nvidia_peermem module; dma-buf with the open kernel modules
and Linux 5.12 or later); Linux, getrlimit(2), RLIMIT_MEMLOCK.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuscope.doctor.containers import container
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.topology.network import cards
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text

_DMABUF_KERNEL = (5, 12)
_ENOUGH_LOCKED_BYTES = 1 << 30


@check(
    "rdma", "topology", Text("RDMA into device memory: peer module, dma-buf, device files, limits")
)
def rdma(machine: Machine) -> Iterable[Finding]:
    """Look only where there are RDMA cards that are up."""
    ports = [c for c in cards(machine) if c.rdma and c.up is not False]
    if not ports:
        return
    yield from _files(machine, len(ports))
    yield from _locked(machine)
    if nvidia_devices(machine):
        yield _direct(machine)


def _files(machine: Machine, count: int) -> Iterable[Finding]:
    names = machine.entries("/dev/infiniband") or ()
    if any(name.startswith("uverbs") for name in names):
        return
    inside = container(machine)
    yield Finding(
        "rdma",
        "warning",
        Text("RDMA cards are there, their device files are not."),
        Text("{count} ports in /sys/class/infiniband, no /dev/infiniband/uverbs*.", count=count),
        Text("NCCL cannot use them and falls back to TCP sockets, many times slower."),
        Text("Pass the device files into the container.")
        if inside
        else Text("Load the module ib_uverbs."),
        ("docker run --device=/dev/infiniband --cap-add=IPC_LOCK ...",)
        if inside
        else ("sudo modprobe ib_uverbs",),
        "/dev/infiniband",
        None,
        {"ports": count},
    )


def _locked(machine: Machine) -> Iterable[Finding]:
    match = re.search(r"^Max locked memory\s+(\S+)", machine.text("/proc/self/limits") or "", re.M)
    if match is None or not match[1].isdigit() or int(match[1]) >= _ENOUGH_LOCKED_BYTES:
        return
    size = int(match[1])
    yield Finding(
        "rdma",
        "warning",
        Text("Too little memory may be locked for RDMA."),
        Text("ulimit -l: {size} MiB.", size=Number(size / 2**20, ".3g")),
        Text("RDMA pins its buffers: NCCL fails with 'Cannot allocate memory' or falls back."),
        Text("Lift the limit for the job."),
        ("ulimit -l unlimited", "docker run --ulimit memlock=-1 ..."),
        "/proc/self/limits",
        None,
        {"locked_memory_bytes": size},
    )


def _direct(machine: Machine) -> Finding:
    modules = machine.text("/proc/modules") or ""
    peer = bool(re.search(r"^(?:nvidia_peermem|nv_peer_mem) ", modules, re.M))
    version = machine.text("/proc/driver/nvidia/version")
    is_open = "Open Kernel Module" in (version or "")
    kernel = re.match(r"(\d+)\.(\d+)", machine.text("/proc/sys/kernel/osrelease") or "")
    recent = bool(kernel) and (int(kernel[1]), int(kernel[2])) >= _DMABUF_KERNEL  # type: ignore[index]
    values = {"peermem": peer, "dmabuf": is_open and recent}
    by = "/proc/modules, /proc/driver/nvidia/version"
    if peer or (is_open and recent):
        how = "nvidia_peermem" if peer else "dma-buf"
        return Finding(
            "rdma",
            "ok",
            Text("Network cards can reach device memory."),
            Text("GPUDirect RDMA by {how}.", how=how),
            known_by=by,
            values=values,
        )
    if version is None or not modules:
        return Finding(
            "rdma",
            "unknown",
            Text("Whether GPUDirect RDMA works is not told."),
            Text("The kernel's modules cannot be seen here."),
            known_by=by,
            values=values,
        )
    return Finding(
        "rdma",
        "warning",
        Text("Network cards cannot reach device memory."),
        Text("nvidia_peermem is not loaded and the driver offers no dma-buf."),
        Text(
            "Traffic between machines is copied through the host's memory: slower, and it takes "
            "processor time."
        ),
        Text("Load the module on the host."),
        ("sudo modprobe nvidia_peermem",),
        by,
        None,
        values,
    )
