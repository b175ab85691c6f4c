"""Is PyTorch here, does it import, and was it built for this machine?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuscope.doctor.accelerators import amd_present, nvidia_present, nvml
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_BY = "import torch"


@check("pytorch", "software", "PyTorch: installed, importable, built for this machine's devices")
def run(machine: Machine) -> Iterator[Finding]:
    """Import it in a process of its own and see what it was built for."""
    facts = machine.probe("torch_libraries", timeout_s=60.0)
    if facts is None:
        why = machine.probe_error("torch_libraries")
        yield _failed(why)
    elif not facts.get("installed"):
        yield _missing(machine, facts)
    elif facts.get("error"):
        yield _broken(facts)
    else:
        yield _built(machine, facts)


def _failed(why: str) -> Finding:
    title = Words("Importing PyTorch failed.", "导入 PyTorch 失败。")
    if not why:
        why = "no answer is known"
    if why.startswith("no answer"):
        return Finding("pytorch", "unknown", title, Words(why, why), known_by=_BY)
    return Finding(
        "pytorch", "error", title, Words(why, why),
        Words("Nothing runs: the process ended.", "进程终止，什么都无法运行。"),
        Words(
            "Install PyTorch again, in a clean environment.", "在干净的环境中重新安装 PyTorch。"
        ),
        ("python -c 'import torch'",), _BY,
    )  # fmt: skip


def _missing(machine: Machine, facts: Mapping[str, Any]) -> Finding:
    device = nvidia_present(machine) or amd_present(machine)
    return Finding(
        "pytorch", "warning" if device else "note",
        Words("PyTorch is not installed.", "没有安装 PyTorch。"),
        Words(f"Not in {facts['executable']}.", f"不在 {facts['executable']} 中。"),
        Words("Nothing can be predicted or measured without it.", "没有它就无法预测或测量。"),
        Words("Install it, or use the Python that has it.", "安装它，或使用装有它的 Python。"),
        ("pip install torch",), _BY, values={"python": facts["python"], "torch": None},
    )  # fmt: skip


def _broken(facts: Mapping[str, Any]) -> Finding:
    text = str(facts["error"])
    return Finding(
        "pytorch", "error",
        Words("PyTorch is installed, but cannot be imported.", "已安装 PyTorch，但无法导入。"),
        Words(text, text),
        Words("Nothing runs.", "什么都无法运行。"),
        Words(
            "A library that is missing or of another version: install PyTorch again, in a clean "
            "environment.",
            "缺少某个库或版本不符：请在干净的环境中重新安装 PyTorch。",
        ),
        ("python -c 'import torch'", "pip install --force-reinstall torch"), _BY,
        values={"torch": (facts.get("packages") or {}).get("torch")},
    )  # fmt: skip


def _built(machine: Machine, facts: Mapping[str, Any]) -> Finding:
    devices = len(facts.get("devices") or ())
    built = _for(facts)
    values = {
        "python": facts["python"], "torch": facts["torch"], "cuda_build": facts.get("cuda_build"),
        "hip_build": facts.get("hip_build"), "xpu_build": facts.get("xpu_build"),
        "cudnn": facts.get("cudnn"), "nccl": facts.get("nccl"),
        "torch_devices": devices, "import_s": facts.get("import_s"),
    }  # fmt: skip
    wanted = "CUDA" if nvidia_present(machine) else "ROCm" if amd_present(machine) else ""
    if wanted and built == "CPU":
        return _wrong_build(facts, wanted, values)
    if wanted == built == "CUDA" and not devices and nvml(machine) is not None:
        return _unavailable(facts, values)
    told = f"{facts['torch']}, Python {facts['python']}, for {built}"
    chinese = f"{facts['torch']}，Python {facts['python']}，面向 {built}"
    if devices:
        told, chinese = f"{told}; sees {devices}", f"{chinese}；可见 {devices} 个设备"
    title = Words("PyTorch works.", "PyTorch 正常。")
    return Finding("pytorch", "ok", title, Words(told, chinese), known_by=_BY, values=values)


def _for(facts: Mapping[str, Any]) -> str:
    for key, name in (("cuda_build", "CUDA"), ("hip_build", "ROCm"), ("xpu_build", "XPU")):
        if facts.get(key):
            return name
    return "MPS" if facts.get("mps_built") else "CPU"


def _wrong_build(facts: Mapping[str, Any], wanted: str, values: dict[str, Any]) -> Finding:
    return Finding(
        "pytorch", "error",
        Words(
            "This PyTorch is built for processors only, and here is a GPU.",
            "这里有 GPU，但 PyTorch 是仅支持 CPU 的版本。",
        ),
        Words(
            f"torch {facts['torch']} has no {wanted}.", f"torch {facts['torch']} 不含 {wanted}。"
        ),
        Words("Everything runs on the CPU.", "一切都在 CPU 上运行。"),
        Words(
            f"Install the build for {wanted}; pytorch.org/get-started names the command.",
            f"安装面向 {wanted} 的版本；命令见 pytorch.org/get-started。",
        ),
        ("pip uninstall -y torch", "pip install torch"), "torch.version", values=values,
    )  # fmt: skip


def _unavailable(facts: Mapping[str, Any], values: dict[str, Any]) -> Finding:
    why = str(facts.get("available_error") or "torch.cuda.is_available() is False")
    return Finding(
        "pytorch", "error",
        Words(
            "The driver answers, but PyTorch cannot use the GPU.",
            "驱动正常响应，但 PyTorch 无法使用 GPU。",
        ),
        Words(why, why),
        Words("Everything runs on the CPU.", "一切都在 CPU 上运行。"),
        Words(
            "See what the checks cuda_runtime, kernel_module and visible_devices say.",
            "请参阅 cuda_runtime、kernel_module 与 visible_devices 的检查结果。",
        ),
        ('python -c "import torch; torch.cuda.init()"',), "torch.cuda.init()", values=values,
    )  # fmt: skip
