"""Machines made by hand for the software checks: healthy ones, to be made ill by each test."""

from __future__ import annotations

from typing import Any

from gpuscope.doctor.machine import Answer, Recording
from gpuscope.doctor.registry import checks
from gpuscope.doctor.types import Finding
from gpuscope.document.text import render

SITE = "/opt/venv/lib/python3.12/site-packages"
LIBCUDA = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06"


def cpu_only() -> Recording:
    """A laptop without a GPU, with PyTorch for processors."""
    return Recording(
        texts={"/proc/version": "Linux version 6.8.0-45-generic", "/etc/hostname": "laptop\n"},
        folders={"/dev": ("null", "tty"), "/sys/bus/pci/devices": ()},
        probes={
            "nvml": {"error": "NVML Shared Library Not Found", "code": 12, "devices": []},
            "torch_libraries": {
                "python": "3.11.7",
                "executable": "/usr/bin/python",
                "platform": "linux",
                "machine": "x86_64",
                "packages": {"torch": "2.11.0"},
                "torch_pins": {},
                "installed": True,
                "error": None,
                "torch": "2.11.0+cpu",
                "cuda_build": None,
                "hip_build": None,
                "xpu_build": None,
                "arch_list": [],
                "devices": [],
                "device_kind": None,
                "available": False,
                "available_error": None,
                "loaded": [],
            },
        },
    )


def h200(count: int = 1, **torch: Any) -> Recording:
    """A server with H200s, all in order.

    Args:
        count: devices.
        torch: facts of the PyTorch probe that are other than they should be.
    """
    names = [f"0000:{0x1A + i:02x}:00.0" for i in range(count)]
    machine = Recording(
        texts={
            "/proc/version": "Linux version 6.8.0-45-generic",
            "/etc/hostname": "node1\n",
            "/proc/driver/nvidia/version": (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build"
            ),
            "/proc/modules": "nvidia_uvm 1 0 - Live\nnvidia 2 1 nvidia_uvm, Live\n",
            **{f"/sys/bus/pci/devices/{n}/class": "0x030200\n" for n in names},
            **{f"/sys/bus/pci/devices/{n}/vendor": "0x10de\n" for n in names},
        },
        folders={
            "/dev": ("nvidia0", "nvidiactl", "nvidia-uvm"),
            "/sys/bus/pci/devices": tuple(names),
        },
        targets={f"/sys/bus/pci/devices/{n}/driver": "/sys/bus/pci/drivers/nvidia" for n in names},
        commands={"nvcc --version": Answer(0, "Cuda compilation tools, release 13.0, V13.0.88\n")},
    )
    machine.probes["nvml"] = {
        "error": None,
        "code": None,
        "driver": "580.65.06",
        "nvml": "13.580.65.06",
        "cuda_driver": "13.0",
        "devices": [
            {
                "index": i,
                "name": "NVIDIA H200",
                "mig_mode": False,
                "bus_id": names[i],
                "memory": {"total_bytes": 150754820096},
            }
            for i in range(count)
        ],
    }
    machine.probes["torch_libraries"] = {**h200_torch(count), **torch}
    return machine


def h200_torch(count: int) -> dict[str, Any]:
    """What the PyTorch probe tells on it."""
    return {
        "python": "3.12.3",
        "executable": "/opt/venv/bin/python",
        "platform": "linux",
        "machine": "x86_64",
        "installed": True,
        "error": None,
        "torch": "2.11.0+cu130",
        "torch_path": f"{SITE}/torch",
        "cuda_build": "13.0",
        "hip_build": None,
        "xpu_build": None,
        "arch_list": ["sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"],
        "cudnn": 91900,
        "nccl": "2.28.9",
        "triton": "3.6.0",
        "packages": {
            "torch": "2.11.0",
            "triton": "3.6.0",
            "nvidia-cudnn-cu13": "9.19.0.56",
            "nvidia-nccl-cu13": "2.28.9",
        },
        "torch_pins": {
            "triton": "3.6.0",
            "nvidia-cudnn-cu13": "9.19.0.56",
            "nvidia-nccl-cu13": "2.28.9",
        },
        "device_kind": "cuda",
        "available": True,
        "available_error": None,
        "devices": [
            {
                "index": i,
                "name": "NVIDIA H200",
                "compute_capability": [9, 0],
                "works": True,
                "error": None,
            }
            for i in range(count)
        ],
        "loaded": [
            LIBCUDA,
            f"{SITE}/nvidia/cu13/lib/libcudart.so.13",
            f"{SITE}/nvidia/cu13/lib/libcublas.so.13",
            f"{SITE}/nvidia/cu13/lib/libcublasLt.so.13",
            f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9",
            f"{SITE}/nvidia/cudnn/lib/libcudnn_ops.so.9",
            f"{SITE}/nvidia/nccl/lib/libnccl.so.2",
        ],
    }


def findings(name: str, machine: Recording) -> list[Finding]:
    """What one check finds; every finding must be complete in both languages."""
    (check,) = (c for c in checks() if c.name == name)
    found = list(check.run(machine))
    for each in found:
        assert each.check == name
        assert each.title
        assert render(each.title, "zh") != each.title
        if each.severity in ("error", "warning"):
            assert each.found
            assert each.why is not None
            assert each.fix is not None
            assert each.known_by
    return found


def severities(name: str, machine: Recording) -> list[str]:
    """The severities of what one check finds."""
    return [each.severity for each in findings(name, machine)]
