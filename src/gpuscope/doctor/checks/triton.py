"""Is Triton here, and is it the one that this PyTorch compiles with?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.doctor.versions import version
from gpuscope.document.text import Text, verbatim

_NAMES = ("triton", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm", "triton-windows")


@check("triton", "software", Text("Triton, with which torch.compile makes its kernels"))
def run(machine: Machine) -> Iterator[Finding]:
    """Compare the installed Triton with the one that PyTorch asks for; CPU builds need none."""
    torch = torch_facts(machine) or {}
    if not torch.get("devices") or not (torch.get("cuda_build") or torch.get("hip_build")):
        return
    packages, pins = torch.get("packages") or {}, torch.get("torch_pins") or {}
    have = next((str(packages[n]) for n in _NAMES if n in packages), torch.get("triton"))
    want = next((str(pins[n]) for n in _NAMES if n in pins), None)
    values = {"triton": have, "triton_wanted": want}
    by = "metadata of the packages torch and triton"
    if not have:
        yield Finding(
            "triton",
            "warning",
            Text("Triton is not installed."),
            Text("torch.compile needs it on a GPU."),
            Text("torch.compile fails on this device."),
            Text("Install the version that PyTorch asks for."),
            (f"pip install triton=={want}" if want else "pip install triton",),
            by,
            values=values,
        )
    elif want and version(have)[:2] != version(want)[:2]:
        yield Finding(
            "triton",
            "warning",
            Text("Triton {have} is not the one that this PyTorch was built for.", have=have),
            Text("PyTorch asks for {want}.", want=want),
            Text("torch.compile uses Triton's inner parts: it may fail or make slow kernels."),
            Text("Install the version that it asks for."),
            (f"pip install triton=={want}",),
            by,
            values=values,
        )
    else:
        fits = Text("Triton fits PyTorch.")
        shown = Text("{have}, as PyTorch asks", have=have)
        plain = verbatim(str(have))
        yield Finding("triton", "ok", fits, shown if want else plain, known_by=by, values=values)
