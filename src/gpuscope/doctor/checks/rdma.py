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
from gpuscope.explain.types import Words

_DMABUF_KERNEL = (5, 12)
_ENOUGH_LOCKED_BYTES = 1 << 30


@check("rdma", "topology", "RDMA into device memory: peer module, dma-buf, device files, limits")
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
        "rdma", "warning",
        Words("RDMA cards are there, their device files are not.", "有 RDMA 网卡但缺少设备文件。"),
        Words(
            f"{count} ports in /sys/class/infiniband, no /dev/infiniband/uverbs*.",
            f"/sys/class/infiniband 中有 {count} 个端口，但没有 /dev/infiniband/uverbs*。",
        ),
        Words(
            "NCCL cannot use them and falls back to TCP sockets, many times slower.",
            "NCCL 无法使用，会退回 TCP 套接字，速度慢很多倍。",
        ),
        Words("Pass the device files into the container.", "把设备文件传入容器。")
        if inside
        else Words("Load the module ib_uverbs.", "加载 ib_uverbs 模块。"),
        ("docker run --device=/dev/infiniband --cap-add=IPC_LOCK ...",)
        if inside
        else ("sudo modprobe ib_uverbs",),
        "/dev/infiniband", None, {"ports": count},
    )  # fmt: skip


def _locked(machine: Machine) -> Iterable[Finding]:
    told = re.search(
        r"^Max locked memory\s+(\S+)", machine.text("/proc/self/limits") or "", re.M
    )  # fmt: skip
    if told is None or not told[1].isdigit() or int(told[1]) >= _ENOUGH_LOCKED_BYTES:
        return
    size = int(told[1])
    yield Finding(
        "rdma", "warning",
        Words("Too little memory may be locked for RDMA.", "可锁定内存过少，RDMA 不够用。"),
        Words(f"ulimit -l: {size / 2**20:.3g} MiB.", f"ulimit -l：{size / 2**20:.3g} MiB。"),
        Words(
            "RDMA pins its buffers: NCCL fails with 'Cannot allocate memory' or falls back.",
            "RDMA 需要锁定缓冲区：NCCL 会报 “Cannot allocate memory” 或退回其他方式。",
        ),
        Words("Lift the limit for the job.", "为任务取消该限制。"),
        ("ulimit -l unlimited", "docker run --ulimit memlock=-1 ..."),
        "/proc/self/limits", None, {"locked_memory_bytes": size},
    )  # fmt: skip


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
            "rdma", "ok",
            Words("Network cards can reach device memory.", "网卡可直接访问显存。"),
            Words(f"GPUDirect RDMA by {how}.", f"GPUDirect RDMA：{how}。"), known_by=by,
            values=values,
        )  # fmt: skip
    if version is None or not modules:
        return Finding(
            "rdma", "unknown",
            Words(
                "Whether GPUDirect RDMA works is not told.",
                "无法得知 GPUDirect RDMA 是否可用。",
            ),
            Words("The kernel's modules cannot be seen here.", "此处看不到内核模块。"),
            known_by=by, values=values,
        )  # fmt: skip
    return Finding(
        "rdma", "warning",
        Words("Network cards cannot reach device memory.", "网卡无法直接访问显存。"),
        Words(
            "nvidia_peermem is not loaded and the driver offers no dma-buf.",
            "未加载 nvidia_peermem，驱动也不提供 dma-buf。",
        ),
        Words(
            "Traffic between machines is copied through the host's memory: slower, and it takes "
            "processor time.",
            "跨机流量要经主机内存中转：更慢，且占用处理器。",
        ),
        Words("Load the module on the host.", "在主机上加载该模块。"),
        ("sudo modprobe nvidia_peermem",), by, None, values,
    )  # fmt: skip
