"""Has PyTorch kernels for each device's architecture?

Rules (NVIDIA, "CUDA C++ Programming Guide", "Binary Compatibility" and "PTX Compatibility"): code
for sm_XY runs on devices of the same X and a Y that is not smaller; PTX for compute_XY is compiled
for any device that is not older; code for sm_XYa runs on X.Y alone, code for sm_XYf on its family.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text

_ARCHITECTURE = re.compile(r"(sm|compute)_(\d+)([af]?)$")


def has_kernels(architectures: Sequence[str], capability: tuple[int, int]) -> str:
    """Return what a device would run: "binary", "ptx" (compiled at first use) or "" for nothing.

    Args:
        architectures: of the build, such as ("sm_80", "sm_90a", "compute_120").
        capability: of the device.
    """
    best = ""
    for name in architectures:
        found = _ARCHITECTURE.match(name)
        if not found:
            continue
        number = int(found.group(2))
        built = (number // 10, number % 10)
        if found.group(1) == "compute":
            if not found.group(3) and built <= capability:
                best = best or "ptx"
        elif found.group(3) == "a":
            if built == capability:
                return "binary"
        elif built[0] == capability[0] and built[1] <= capability[1]:
            return "binary"
    return best


@check("architecture", "software", Text("Kernels for each device's architecture in this PyTorch"))
def run(machine: Machine) -> Iterator[Finding]:
    """Compare the build's list of architectures with each device."""
    torch = torch_facts(machine) or {}
    listed = torch.get("arch_list") or []
    if not torch.get("cuda_build") or not listed:
        return
    fine: list[str] = []
    for device in torch.get("devices") or ():
        capability = device.get("compute_capability")
        if not capability:
            continue
        name = f"sm_{capability[0]}{capability[1]}"
        how = has_kernels(listed, (capability[0], capability[1]))
        if how == "binary":
            fine.append(name)
        else:
            yield _missing(device, name, how, listed, str(torch["cuda_build"]))
    if fine:
        shown = ", ".join(dict.fromkeys(fine))
        yield Finding(
            "architecture",
            "ok",
            Text("PyTorch has kernels for these devices."),
            Text("{shown}: built in", shown=shown),
            known_by="torch.cuda.get_arch_list()",
            values={"arch_list": " ".join(listed)},
        )


def _missing(
    device: dict[str, object], name: str, how: str, listed: list[str], cuda: str
) -> Finding:
    index = device["index"]
    listing = " ".join(listed)
    values = {"device_name": str(device["name"]), "architecture": name, "arch_list": listing}
    evidence = Text(
        "{device} is {name}; this PyTorch has {listing} (CUDA {cuda}).",
        device=str(device["name"]),
        name=name,
        listing=listing,
        cuda=cuda,
    )
    if how == "ptx":
        return _compiled_late(int(str(index)), evidence, values)
    return Finding(
        "architecture",
        "error",
        Text("This PyTorch has no kernels for {name}.", name=name),
        evidence,
        Text("Work on it fails: 'no kernel image is available for execution on the device'."),
        Text(
            "Install a build that has it: a newer PyTorch for a new device, an older one for an "
            "old device."
        ),
        (
            "pip install --upgrade torch",
            'python -c "import torch; print(torch.cuda.get_arch_list())"',
        ),
        "torch.cuda.get_arch_list()",
        device=int(str(index)),
        values=values,
    )


def _compiled_late(index: int, evidence: Text, values: dict[str, str]) -> Finding:
    return Finding(
        "architecture",
        "warning",
        Text("PyTorch compiles its kernels for this device when it first runs them."),
        evidence,
        Text("The first run takes minutes, and kernels are not tuned for this device."),
        Text("Install a PyTorch that has its architecture."),
        ("pip install --upgrade torch",),
        "torch.cuda.get_arch_list()",
        device=index,
        values=values,
    )
