"""Is PyTorch here, does it import, and was it built for this machine?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuscope.doctor.accelerators import amd_present, nvidia_present, nvml
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text, verbatim

_BY = "import torch"


@check(
    "pytorch", "software", Text("PyTorch: installed, importable, built for this machine's devices")
)
def run(machine: Machine) -> Iterator[Finding]:
    """Import it in a process of its own and see what it was built for."""
    facts = machine.probe("torch_libraries", timeout_s=60.0)
    if facts is None:
        why = machine.probe_error("torch_libraries")
        yield _failed(why, hangs=machine.probe_hangs("torch_libraries"))
    elif not facts.get("installed"):
        yield _missing(machine, facts)
    elif facts.get("error"):
        yield _broken(facts)
    else:
        yield _built(machine, facts)


def _failed(why: str, *, hangs: bool) -> Finding:
    title = Text("Importing PyTorch failed.")
    if not why:
        return Finding("pytorch", "unknown", title, Text("no answer is known"), known_by=_BY)
    if hangs:
        return Finding("pytorch", "unknown", title, verbatim(why), known_by=_BY)
    return Finding(
        "pytorch",
        "error",
        title,
        verbatim(why),
        Text("Nothing runs: the process ended."),
        Text("Install PyTorch again, in a clean environment."),
        ("python -c 'import torch'",),
        _BY,
    )


def _missing(machine: Machine, facts: Mapping[str, Any]) -> Finding:
    device = nvidia_present(machine) or amd_present(machine)
    return Finding(
        "pytorch",
        "warning" if device else "note",
        Text("PyTorch is not installed."),
        Text("Not in {facts}.", facts=facts["executable"]),
        Text("Nothing can be predicted or measured without it."),
        Text("Install it, or use the Python that has it."),
        ("pip install torch",),
        _BY,
        values={"python": facts["python"], "torch": None},
    )


def _broken(facts: Mapping[str, Any]) -> Finding:
    text = str(facts["error"])
    return Finding(
        "pytorch",
        "error",
        Text("PyTorch is installed, but cannot be imported."),
        verbatim(text),
        Text("Nothing runs."),
        Text(
            "A library that is missing or of another version: install PyTorch again, in a clean "
            "environment."
        ),
        ("python -c 'import torch'", "pip install --force-reinstall torch"),
        _BY,
        values={"torch": (facts.get("packages") or {}).get("torch")},
    )


def _built(machine: Machine, facts: Mapping[str, Any]) -> Finding:
    devices = len(facts.get("devices") or ())
    built = _for(facts)
    values = {
        "python": facts["python"],
        "torch": facts["torch"],
        "cuda_build": facts.get("cuda_build"),
        "hip_build": facts.get("hip_build"),
        "xpu_build": facts.get("xpu_build"),
        "cudnn": facts.get("cudnn"),
        "nccl": facts.get("nccl"),
        "torch_devices": devices,
        "import_s": facts.get("import_s"),
    }
    wanted = "CUDA" if nvidia_present(machine) else "ROCm" if amd_present(machine) else ""
    if wanted and built == "CPU":
        return _wrong_build(facts, wanted, values)
    if wanted == built == "CUDA" and not devices and nvml(machine) is not None:
        return _unavailable(facts, values)
    versions = {"torch": facts["torch"], "python": facts["python"]}
    evidence = Text("{torch}, Python {python}, for {built}", built=built, **versions)
    if devices:
        evidence = Text("{told}; sees {devices}", told=evidence, devices=devices)
    title = Text("PyTorch works.")
    return Finding("pytorch", "ok", title, evidence, known_by=_BY, values=values)


def _for(facts: Mapping[str, Any]) -> str:
    for key, name in (("cuda_build", "CUDA"), ("hip_build", "ROCm"), ("xpu_build", "XPU")):
        if facts.get(key):
            return name
    return "MPS" if facts.get("mps_built") else "CPU"


def _wrong_build(facts: Mapping[str, Any], wanted: str, values: dict[str, Any]) -> Finding:
    return Finding(
        "pytorch",
        "error",
        Text("This PyTorch is built for processors only, and here is a GPU."),
        Text("torch {facts} has no {wanted}.", facts=facts["torch"], wanted=wanted),
        Text("Everything runs on the CPU."),
        Text(
            "Install the build for {wanted}; pytorch.org/get-started names the command.",
            wanted=wanted,
        ),
        ("pip uninstall -y torch", "pip install torch"),
        "torch.version",
        values=values,
    )


def _unavailable(facts: Mapping[str, Any], values: dict[str, Any]) -> Finding:
    why = str(facts.get("available_error") or "torch.cuda.is_available() is False")
    return Finding(
        "pytorch",
        "error",
        Text("The driver answers, but PyTorch cannot use the GPU."),
        verbatim(why),
        Text("Everything runs on the CPU."),
        Text("See what the checks cuda_runtime, kernel_module and visible_devices say."),
        ('python -c "import torch; torch.cuda.init()"',),
        "torch.cuda.init()",
        values=values,
    )
