"""What machine this is: names, versions, clocks and limits."""

from __future__ import annotations

import datetime
import json
import os
import platform
from pathlib import Path
from typing import Any

import torch


def _cpu(*names: str) -> str | None:
    """Fields of the first processor in /proc/cpuinfo, joined by slashes; None where not there."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    values = {key.strip(): value.strip() for key, value in fields.items()}
    found = [values[name] for name in names if name in values]
    return "/".join(found) if found else None


def _nvml() -> dict[str, Any]:
    try:
        import pynvml as nvml

        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        return {
            "driver": nvml.nvmlSystemGetDriverVersion(),
            "power_limit_w": nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
            "power_idle_w": nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "sm_mhz_max": nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
            "sm_mhz_now": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "mem_mhz_max": nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM),
            "pcie_generation": nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
            "pcie_width": nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
            "temperature_c": nvml.nvmlDeviceGetTemperature(handle, 0),
        }
    except Exception as error:
        return {"nvml_error": str(error)}


def write_facts(out: Path) -> None:
    """Write ``machine.json``."""
    nvml = _nvml()  # before any CUDA context: the idle power
    props = torch.cuda.get_device_properties(0)
    facts = {
        "gpu": props.name, "compute_capability": f"{props.major}.{props.minor}",
        "sms": props.multi_processor_count, "memory_bytes": props.total_memory,
        "l2_bytes": props.L2_cache_size,
        "shared_memory_per_sm_bytes": props.shared_memory_per_multiprocessor,
        "registers_per_sm": props.regs_per_multiprocessor,
        "threads_per_sm": props.max_threads_per_multi_processor,
        "torch": torch.__version__, "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(), "cublas": _library("cublas"),
        "cudnn_package": _library("cudnn-cu13") or _library("cudnn-cu12"),
        "python": platform.python_version(), "cpu_threads_torch": torch.get_num_threads(),
        "cpu": _cpu("model name"),
        "cpu_family_model_stepping": _cpu("cpu family", "model", "stepping"),
        "cpu_count": os.cpu_count(), "kernel": platform.release(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "defaults": {
            "matmul_allow_tf32": torch.backends.cuda.matmul.allow_tf32,
            "cudnn_allow_tf32": torch.backends.cudnn.allow_tf32,
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "flash_sdp": torch.backends.cuda.flash_sdp_enabled(),
            "cudnn_sdp": torch.backends.cuda.cudnn_sdp_enabled(),
            "preferred_blas": str(torch.backends.cuda.preferred_blas_library()),
        },
        **nvml,
    }  # fmt: skip
    (out / "machine.json").write_text(json.dumps(facts, indent=1, default=str))


def _library(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    for full in (f"nvidia-{name}", f"nvidia-{name}-cu12"):
        try:
            return version(full)
        except PackageNotFoundError:
            continue
    return None
