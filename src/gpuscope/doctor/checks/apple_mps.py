"""Apple: can PyTorch use the GPU (Metal Performance Shaders)?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_BY = "torch.backends.mps"


@check("apple_mps", "software", "Apple's GPU through Metal, and a Python that is not translated")
def run(machine: Machine) -> Iterator[Finding]:
    """Look at the build, the availability, and the processor that Python was built for."""
    torch = torch_facts(machine) or {}
    if torch.get("platform") != "darwin":
        return
    built, available = torch.get("mps_built"), torch.get("mps_available")
    values = {"mps_built": built, "mps_available": available, "machine": torch.get("machine")}
    if available:
        title = Words("PyTorch can use Apple's GPU.", "PyTorch 可以使用 Apple GPU。")
        told = Words("MPS available", "MPS 可用")
        yield Finding("apple_mps", "ok", title, told, known_by=_BY, values=values)
        return
    if torch.get("machine") == "x86_64" and _apple_processor(machine):
        yield Finding(
            "apple_mps", "warning",
            Words(
                "This Python is built for Intel processors and runs translated.",
                "此 Python 面向 Intel 处理器，正以转译方式运行。",
            ),
            Words(
                "Python says x86_64 on an Apple processor.",
                "Python 在 Apple 芯片上显示 x86_64。",
            ),
            Words("It is slow, and cannot use the GPU.", "速度慢，且无法使用 GPU。"),
            Words("Install Python and PyTorch for arm64.", "安装 arm64 版的 Python 与 PyTorch。"),
            (), f"{_BY}; sysctl", values=values,
        )  # fmt: skip
        return
    yield Finding(
        "apple_mps", "note",
        Words("PyTorch cannot use the GPU here.", "PyTorch 在此无法使用 GPU。"),
        Words(
            "This build has no MPS." if not built else "MPS needs macOS 14 and an Apple processor.",
            "此版本不含 MPS。" if not built else "MPS 需要 macOS 14 及 Apple 芯片。",
        ),
        known_by=_BY, values=values,
    )  # fmt: skip


def _apple_processor(machine: Machine) -> bool:
    answer = machine.command("sysctl", "-n", "machdep.cpu.brand_string")
    return answer is not None and "Apple" in answer.out
