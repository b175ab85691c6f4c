"""Are the packages that PyTorch was built and tested with the ones that are installed?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.doctor.versions import version
from gpuscope.document.text import Text, joined

_BY = "metadata of the package torch"


@check(
    "pinned_packages", "software", Text("cuDNN, NCCL, cuBLAS, ... as this PyTorch asks for them")
)
def run(machine: Machine) -> Iterator[Finding]:
    """Compare installed packages with the exact versions that PyTorch's metadata names."""
    torch = torch_facts(machine) or {}
    pins, installed = torch.get("torch_pins") or {}, torch.get("packages") or {}
    wanted = {name: str(pin) for name, pin in pins.items() if "triton" not in name}
    if not wanted:
        return
    others = {
        name: (pin, str(installed[name]))
        for name, pin in wanted.items()
        if name in installed and version(installed[name]) != version(pin)
    }
    values = {name: str(installed[name]) for name in wanted if name in installed}
    if not others:
        known = [name for name in wanted if name in installed]
        if known:
            yield Finding(
                "pinned_packages",
                "ok",
                Text("The libraries are those PyTorch asks for."),
                Text("{known} packages as pinned", known=len(known)),
                known_by=_BY,
                values=values,
            )
        return
    worse = any(
        version(have) < version(pin) or version(have)[:1] != version(pin)[:1]
        for pin, have in others.values()
    )
    shown = joined(
        (
            Text("{name} {have}, not {pin}", name=name, have=have, pin=pin)
            for name, (pin, have) in others.items()
        ),
        "; ",
    )
    fix = [f"{name}=={pin}" for name, (pin, _) in others.items()]
    yield Finding(
        "pinned_packages",
        "warning" if worse else "note",
        Text("Some libraries are not the versions that this PyTorch was built with."),
        Text("{shown}.", shown=shown),
        Text(
            "Older ones may lack functions (an import fails) or give other status codes; newer "
            "ones of the same major version mostly work."
        ),
        Text("Install the versions that it asks for."),
        (f"pip install {' '.join(fix)}",),
        _BY,
        values=values,
    )
