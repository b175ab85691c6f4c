"""Machines as the doctor would see them, made by code: healthy servers to put faults on."""

from __future__ import annotations

import copy
from typing import Any

from gpuscope.doctor.machine import Recording

PCI = "/sys/bus/pci/devices"

PORT = {
    "active": True,
    "version": 4,
    "speed_mbps": 26562,
    "remote_type": "switch",
    "remote_bus_id": "00000000:C0:00.0",
    "errors": {"replay": 0, "recovery": 0, "crc_flit": 0, "crc_data": 0},
}


def h200(index: int = 0, **changes: Any) -> dict[str, Any]:
    """Facts of a healthy H200 at rest, as the probe tells them; `changes` replace parts of it."""
    found: dict[str, Any] = {
        "index": index,
        "name": "NVIDIA H200",
        "uuid": f"GPU-0000000{index}",
        "bus_id": f"00000000:{0x13 + 0x10 * index:02X}:00.0",
        "architecture": "hopper",
        "compute_capability": [9, 0],
        "persistence_mode": True,
        "compute_mode": "default",
        "mig_mode": False,
        "mig_mode_pending": False,
        "mig_devices": [],
        "performance_state": 0,
        "memory": {"total_bytes": 150754820096, "used_bytes": 646905856},
        "clocks": {
            "graphics_mhz": 345,
            "max_graphics_mhz": 1980,
            "sm_mhz": 345,
            "max_sm_mhz": 1980,
            "memory_mhz": 3201,
            "max_memory_mhz": 3201,
            "application_graphics_mhz": 1980,
            "default_application_graphics_mhz": 1980,
            "application_memory_mhz": 3201,
            "default_application_memory_mhz": 3201,
        },
        "clocks_event_reasons": ["gpu_idle"],
        "violation_time_s": {"power": 0.0, "thermal": 0.0, "board_limit": 0.0},
        "power": {
            "usage_w": 76.0,
            "enforced_limit_w": 700.0,
            "limit_w": 700.0,
            "default_limit_w": 700.0,
            "min_limit_w": 200.0,
            "max_limit_w": 700.0,
        },
        "temperature": {
            "gpu_c": 31,
            "memory_c": 36,
            "shutdown_c": 92,
            "slowdown_c": 89,
            "memory_max_c": 95,
            "gpu_max_c": 87,
        },
        "fans": [],
        "utilization": {"gpu_percent": 0, "memory_percent": 0},
        "ecc": {
            "mode": True,
            "mode_pending": True,
            "volatile_corrected": 0,
            "volatile_uncorrected": 0,
            "aggregate_corrected": 0,
            "aggregate_uncorrected": 0,
        },
        "remapped_rows": {
            "correctable": 0,
            "uncorrectable": 0,
            "pending": False,
            "failure": False,
            "banks_by_spare_rows": {"max": 3072, "high": 0, "partial": 0, "low": 0, "none": 0},
        },
        "retired_pages": None,
        "pcie": {
            "generation": 5,
            "width": 16,
            "max_generation": 5,
            "max_width": 16,
            "device_max_generation": 5,
            "speed_mbps": 32000,
            "replay_counter": 0,
        },
        "nvlinks": [{"link": link, **copy.deepcopy(PORT)} for link in range(18)],
        "fabric": {"state": "completed", "status": 0, "health": "healthy"},
        "numa_node": None,
        "cpu_affinity": None,
        "memory_affinity": [0 if index < 4 else 1],
        "processes": [],
    }
    return {**found, **changes}


def nvml(devices: list[dict[str, Any]], pairs: list[dict[str, Any]] | None = None) -> Recording:
    """A machine of which only NVML is known."""
    told = {"error": None, "code": None, "driver": "580.95.05", "cuda_driver": "13.0"}
    return Recording(probes={"nvml": {**told, "devices": devices, "pairs": pairs or []}})


def peers(count: int, status: str = "ok", nvlink: str = "ok") -> list[dict[str, Any]]:
    """All pairs of devices, as the probe tells them."""
    p2p = {"read": status, "write": status, "nvlink": nvlink, "atomics": status}
    return [
        {"a": a, "b": b, "topology": "node" if (a < 4) == (b < 4) else "system", "p2p": dict(p2p)}
        for a in range(count)
        for b in range(a + 1, count)
    ]


def server(count: int = 8, nics: bool = True) -> Recording:
    """A healthy server: H200s behind NVSwitches, each with a network card on its PCIe switch."""
    found = nvml([h200(i) for i in range(count)], peers(count))
    names = []
    for index in range(count):
        root = 0x10 + 0x10 * index
        node = 0 if index < 4 else 1
        bridge = f"/sys/devices/pci0000:{root:02x}/0000:{root:02x}:01.0/0000:{root + 1:02x}:00.0"
        gpu = f"0000:{root + 3:02x}:00.0"
        names.append(gpu)
        found.targets[f"{PCI}/{gpu}"] = f"{bridge}/0000:{root + 2:02x}:00.0/{gpu}"
        device(found, gpu, "0x030200", "0x10de", node, "32.0 GT/s PCIe", 16)
        if nics:
            card = f"0000:{root + 4:02x}:00.0"
            names.append(card)
            place = f"{bridge}/0000:{root + 2:02x}:01.0/{card}"
            found.targets[f"{PCI}/{card}"] = place
            device(found, card, "0x020700", "0x15b3", node, "32.0 GT/s PCIe", 16)
            infiniband(found, f"mlx5_{index}", place)
    found.folders[PCI] = tuple(sorted(names))
    found.folders["/sys/class/infiniband"] = tuple(f"mlx5_{i}" for i in range(count if nics else 0))
    processors(found, ("0-47", "48-95"))
    return found


def device(
    found: Recording, bus: str, kind: str, vendor: str, node: int, speed: str, width: int
) -> None:
    """Put a PCI device's files in."""
    base = f"{PCI}/{bus}"
    for name, text in {
        "class": kind,
        "vendor": vendor,
        "numa_node": str(node),
        "current_link_speed": speed,
        "max_link_speed": speed,
        "current_link_width": str(width),
        "max_link_width": str(width),
    }.items():
        found.texts[f"{base}/{name}"] = text + "\n"


def infiniband(found: Recording, name: str, place: str) -> None:
    """Put an InfiniBand port in."""
    base = f"/sys/class/infiniband/{name}"
    found.targets[f"{base}/device"] = place
    found.texts[f"{base}/ports/1/link_layer"] = "InfiniBand\n"
    found.texts[f"{base}/ports/1/state"] = "4: ACTIVE\n"
    found.texts[f"{base}/ports/1/rate"] = "400 Gb/sec (4X NDR)\n"


def processors(found: Recording, nodes: tuple[str, ...], allowed: str = "") -> None:
    """Put memory nodes in, and the processors that this process may use."""
    base = "/sys/devices/system/node"
    found.folders[base] = ("has_cpu", *(f"node{i}" for i in range(len(nodes))), "online")
    for index, cpus in enumerate(nodes):
        found.texts[f"{base}/node{index}/cpulist"] = cpus + "\n"
        told = f"Node {index} MemTotal:       1056000000 kB\n"
        found.texts[f"{base}/node{index}/meminfo"] = told
    every = allowed or ",".join(nodes)
    found.texts["/proc/self/status"] = f"Name:\tpython\nCpus_allowed_list:\t{every}\n"


def instincts(count: int = 8) -> Recording:
    """A board of AMD devices, all joined by Infinity Fabric; the driver's node 0 is a processor."""
    found = Recording()
    base = "/sys/class/kfd/kfd/topology/nodes"
    found.folders[base] = tuple(str(i) for i in range(count + 1))
    found.texts[f"{base}/0/properties"] = "cpu_cores_count 96\nsimd_count 0\nlocation_id 0\n"
    names = []
    for index in range(count):
        bus = 0x05 + 0x10 * index
        address = f"0000:{bus:02x}:00.0"
        names.append(address)
        up = f"/sys/devices/pci0000:{bus - 5:02x}/0000:{bus - 5:02x}:01.1"
        found.targets[f"{PCI}/{address}"] = f"{up}/{address}"
        device(found, address, "0x120000", "0x1002", 0, "32.0 GT/s PCIe", 16)
        node = f"{base}/{index + 1}"
        found.texts[f"{node}/properties"] = f"simd_count 1216\nlocation_id {bus << 8}\ndomain 0\n"
        others = [0, *(i + 1 for i in range(count) if i != index)]
        found.folders[f"{node}/io_links"] = tuple(str(i) for i in range(len(others)))
        for number, other in enumerate(others):
            kind = 11 if other else 2
            found.texts[f"{node}/io_links/{number}/properties"] = f"type {kind}\nnode_to {other}\n"
    found.folders[PCI] = tuple(names)
    return found
