"""Apple: can PyTorch use the GPU (Metal Performance Shaders)?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text

_BY = "torch.backends.mps"


@check(
    "apple_mps", "software", Text("Apple's GPU through Metal, and a Python that is not translated")
)
def run(machine: Machine) -> Iterator[Finding]:
    """Look at the build, the availability, and the processor that Python was built for."""
    torch = torch_facts(machine) or {}
    if torch.get("platform") != "darwin":
        return
    built, available = torch.get("mps_built"), torch.get("mps_available")
    values = {"mps_built": built, "mps_available": available, "machine": torch.get("machine")}
    if available:
        title = Text("PyTorch can use Apple's GPU.")
        evidence = Text("MPS available")
        yield Finding("apple_mps", "ok", title, evidence, known_by=_BY, values=values)
        return
    if torch.get("machine") == "x86_64" and _apple_processor(machine):
        yield Finding(
            "apple_mps",
            "warning",
            Text("This Python is built for Intel processors and runs translated."),
            Text("Python says x86_64 on an Apple processor."),
            Text("It is slow, and cannot use the GPU."),
            Text("Install Python and PyTorch for arm64."),
            (),
            f"{_BY}; sysctl",
            values=values,
        )
        return
    yield Finding(
        "apple_mps",
        "note",
        Text("PyTorch cannot use the GPU here."),
        (
            Text("This build has no MPS.")
            if not built
            else Text("MPS needs macOS 14 and an Apple processor.")
        ),
        known_by=_BY,
        values=values,
    )


def _apple_processor(machine: Machine) -> bool:
    answer = machine.command("sysctl", "-n", "machdep.cpu.brand_string")
    return answer is not None and "Apple" in answer.out
