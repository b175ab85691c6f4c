"""Whether network cards may write into device memory."""

from __future__ import annotations

from checked import findings, sorts, the
from wired_machines import server

from gpuscope.doctor.machine import Recording

LIMITS = "Limit                     Soft Limit           Hard Limit           Units\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05\n"


def cluster_node() -> Recording:
    found = server()
    found.folders["/dev/infiniband"] = ("rdma_cm", "uverbs0")
    found.texts["/proc/self/limits"] = (
        LIMITS + "Max locked memory         unlimited            unlimited            bytes\n"
    )
    found.texts["/proc/modules"] = "nvidia_peermem 16384 0 - Live 0x0\nnvidia 1 0 - Live 0x0\n"
    found.texts["/proc/driver/nvidia/version"] = CLOSED
    return found


def test_the_peer_module_is_enough() -> None:
    assert the(findings("rdma", cluster_node()), "ok").values == {"peermem": True, "dmabuf": False}


def test_the_open_driver_on_a_recent_kernel_is_enough() -> None:
    found = cluster_node()
    found.texts["/proc/modules"] = "nvidia 1 0 - Live 0x0\n"
    found.texts["/proc/driver/nvidia/version"] = OPEN
    found.texts["/proc/sys/kernel/osrelease"] = "5.15.0-91-generic\n"
    assert sorts(findings("rdma", found)) == ["ok"]
    found.texts["/proc/sys/kernel/osrelease"] = "5.4.0-91-generic\n"
    assert sorts(findings("rdma", found)) == ["warning"]


def test_without_either_traffic_goes_through_the_host() -> None:
    ill = cluster_node()
    ill.texts["/proc/modules"] = "nvidia 1 0 - Live 0x0\n"
    assert "modprobe nvidia_peermem" in the(findings("rdma", ill), "warning").commands[0]


def test_a_container_without_device_files_is_told_how() -> None:
    ill = cluster_node()
    ill.folders["/dev/infiniband"] = None
    ill.targets["/.dockerenv"] = "/.dockerenv"
    told = the(findings("rdma", ill), "warning")
    assert "--device=/dev/infiniband" in told.commands[0]


def test_too_little_locked_memory_is_a_fault() -> None:
    ill = cluster_node()
    ill.texts["/proc/self/limits"] = (
        LIMITS + "Max locked memory         67108864             67108864             bytes\n"
    )
    told = the(findings("rdma", ill), "warning")
    assert told.values == {"locked_memory_bytes": 67108864}
    assert "64 MiB" in told.found


def test_what_cannot_be_seen_is_unknown() -> None:
    hidden = cluster_node()
    hidden.texts["/proc/modules"] = None
    assert sorts(findings("rdma", hidden)) == ["unknown"]


def test_nothing_is_said_without_such_cards() -> None:
    assert findings("rdma", Recording()) == []
    assert findings("rdma", server(nics=False)) == []
