"""What PyTorch is here, what it was built for, and which libraries it really loaded, as JSON.

Run as a process of its own (`python -m gpuscope.doctor.probes.torch_libraries`). Answers
`{"installed": false, "error": ...}` without PyTorch. Each device gets one tiny piece of work, so
that "it is there" and "it works" are told apart.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
import time
import warnings
from pathlib import Path
from typing import Any

Json = dict[str, Any]

WATCHED = (
    "libcuda",
    "libcudart",
    "libcublas",
    "libcublasLt",
    "libcudnn",
    "libnccl",
    "libnvrtc",
    "libcusparse",
    "libcufft",
    "libnvidia-ml",
    "libnvJitLink",
    "libcupti",
    "libamdhip64",
    "librccl",
    "libMIOpen",
    "librocblas",
    "libhsa-runtime64",
    "libze_loader",
    "libsycl",
)
"""Libraries whose copies matter, by the beginning of their file names."""

PACKAGES = (
    "torch",
    "torchvision",
    "torchaudio",
    "triton",
    "pytorch-triton",
    "pytorch-triton-rocm",
    "triton-windows",
    "nvidia-ml-py",
    "numpy",
    "transformers",
    "flash-attn",
    "xformers",
    "deepspeed",
    "vllm",
    "bitsandbytes",
    "apex",
    "transformer-engine",
    "intel-extension-for-pytorch",
    "cupy",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "jax",
)
"""Installed packages that have to fit PyTorch; those named nvidia-* are listed besides."""

_MOST_TEST_S = 8.0


def loaded_libraries(maps: str) -> list[str]:
    """Return the watched libraries that a process has mapped.

    Args:
        maps: content of /proc/<pid>/maps.
    """
    found = set()
    for line in maps.splitlines():
        path = line.partition("/")[2]
        if not path:
            continue
        path = "/" + path.removesuffix(" (deleted)")
        name = path.rpartition("/")[2]
        stem = name.partition(".so")[0].partition("-")[0].partition("_")[0]
        if ".so" in name and (stem in WATCHED or name.partition(".so")[0] in WATCHED):
            found.add(path)
    return sorted(found)


def packages() -> Json:
    """Return versions of installed packages that have to fit each other."""
    found: Json = {}
    for each in importlib.metadata.distributions():
        name = (each.metadata["Name"] or "").lower().replace("_", "-")
        if name in PACKAGES or (name.startswith("nvidia-") and name != "nvidia-ml-py"):
            found.setdefault(name, each.version)
    return dict(sorted(found.items()))


def pins(requirements: list[str]) -> Json:
    """Return the exact versions that PyTorch asks for: package -> version.

    Args:
        requirements: as its metadata lists them ("triton==3.6.0; platform_system == ...").
    """
    found: Json = {}
    for line in requirements:
        wanted, _, marker = line.partition(";")
        name, exact, version = wanted.partition("==")
        name = name.partition("[")[0].strip().lower().replace("_", "-")
        named = name.startswith(("nvidia-", "triton", "pytorch-triton", "cuda-", "rocm"))
        if exact and named and "extra ==" not in marker:
            found.setdefault(name, version.strip())
    return dict(sorted(found.items()))


def facts() -> Json:
    """Return all facts."""
    own: Json = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": sys.platform,
        "machine": platform.machine(),
        "packages": packages(),
        "torch_pins": _try(lambda: pins(importlib.metadata.requires("torch") or [])) or {},
    }
    begin = time.perf_counter()
    try:
        import torch
    except Exception as error:  # an import that breaks is what we want to know
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        return {**own, "installed": not missing, "error": f"{type(error).__name__}: {error}"}
    own["import_s"] = time.perf_counter() - begin
    return {**own, "installed": True, "error": None, **_build(torch), **_devices(torch), **_last()}


def _build(torch: Any) -> Json:
    """What the wheel was built with."""
    cuda = torch.version.cuda
    return {
        "torch": str(torch.__version__),
        "torch_path": str(Path(torch.__file__).parent),
        "cuda_build": cuda,
        "hip_build": getattr(torch.version, "hip", None),
        "xpu_build": getattr(torch.version, "xpu", None),
        "arch_list": _try(lambda: list(torch._C._cuda_getArchFlags().split())) if cuda else [],
        "cudnn": _try(lambda: torch.backends.cudnn.version()),
        "nccl": _try(lambda: ".".join(map(str, torch.cuda.nccl.version()))),
        "cpu_capability": _try(lambda: torch.backends.cpu.get_cpu_capability()),
        "threads": _try(lambda: torch.get_num_threads()),
        "mps_built": _try(lambda: bool(torch.backends.mps.is_built())),
        "mps_available": _try(lambda: bool(torch.backends.mps.is_available())),
        "triton": _try(_triton),
    }


def _triton() -> str | None:
    import triton

    return str(triton.__version__)


def _devices(torch: Any) -> Json:
    """What it sees, and whether each device does a tiny piece of work."""
    kind = "cuda"
    if getattr(torch.version, "cuda", None) is None and getattr(torch.version, "hip", None) is None:
        kind = "xpu" if _try(lambda: torch.xpu.is_available()) else ""
    if not kind:
        return {"device_kind": None, "available": False, "available_error": None, "devices": []}
    module = getattr(torch, kind)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        available = bool(_try(module.is_available))
    error = "; ".join(str(w.message) for w in given) or None
    if not available:
        try:
            module.init()
        except Exception as reason:
            error = str(reason).strip() or error
        return {"device_kind": kind, "available": False, "available_error": error, "devices": []}
    deadline = time.perf_counter() + _MOST_TEST_S
    return {
        "device_kind": kind,
        "available": True,
        "available_error": error,
        "devices": [_device(torch, kind, i, deadline) for i in range(module.device_count())],
    }


def _device(torch: Any, kind: str, index: int, deadline: float) -> Json:
    module = getattr(torch, kind)
    try:
        found = module.get_device_properties(index)
    except Exception as error:
        return {"index": index, "error": str(error)}
    capability = (
        [int(found.major), int(found.minor)] if hasattr(found, "major") and kind == "cuda" else None
    )
    works: Json = {"works": None, "error": None}  # None: no time was left to try
    if time.perf_counter() < deadline:
        try:
            value = torch.ones(64, device=f"{kind}:{index}").add(1).sum().item()
            works = {"works": value == 128.0, "error": None}
        except Exception as error:
            works = {"works": False, "error": str(error).strip()[:600]}
    return {
        "index": index,
        "name": str(found.name),
        "compute_capability": capability,
        "gcn_arch": getattr(found, "gcnArchName", None) if torch.version.hip else None,
        "uuid": _try(lambda: str(found.uuid)),
        "multiprocessors": getattr(found, "multi_processor_count", None),
        "memory_bytes": int(found.total_memory),
        **works,
    }


def _last() -> Json:
    """The libraries mapped after the work was done."""
    try:
        maps = Path("/proc/self/maps").read_text("utf-8", "replace")
    except OSError:
        return {"loaded": None}
    return {"loaded": [os.path.realpath(path) for path in loaded_libraries(maps)]}


def _try(ask: Any) -> Any:
    try:
        return ask()
    except Exception:  # each version of PyTorch lacks something else
        return None


def main() -> None:
    """Print the facts as one line of JSON."""
    print(json.dumps(facts()))


if __name__ == "__main__":
    main()
