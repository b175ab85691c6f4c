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
from gpuscope.explain.types import Words

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


@check("architecture", "software", "Kernels for each device's architecture in this PyTorch")
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
            "architecture", "ok",
            Words("PyTorch has kernels for these devices.", "PyTorch 含有这些设备的内核。"),
            Words(f"{shown}: built in", f"{shown}：已内置"), known_by="torch.cuda.get_arch_list()",
            values={"arch_list": " ".join(listed)},
        )  # fmt: skip


def _missing(
    device: dict[str, object], name: str, how: str, listed: list[str], cuda: str
) -> Finding:
    index = device["index"]
    listing = " ".join(listed)
    values = {"device_name": str(device["name"]), "architecture": name, "arch_list": listing}
    told = Words(
        f"{device['name']} is {name}; this PyTorch has {listing} (CUDA {cuda}).",
        f"{device['name']} 为 {name}；此 PyTorch 含 {listing}（CUDA {cuda}）。",
    )
    if how == "ptx":
        return _compiled_late(int(str(index)), told, values)
    return Finding(
        "architecture", "error",
        Words(
            f"This PyTorch has no kernels for {name}.", f"此 PyTorch 没有 {name} 的内核。"
        ),
        told,
        Words(
            "Work on it fails: 'no kernel image is available for execution on the device'.",
            "在其上运行会失败：'no kernel image is available for execution on the device'。",
        ),
        Words(
            "Install a build that has it: a newer PyTorch for a new device, an older one for "
            "an old device.",
            "安装含有该架构的版本：新设备用更新的 PyTorch，旧设备用更早的版本。",
        ),
        (
            "pip install --upgrade torch",
            'python -c "import torch; print(torch.cuda.get_arch_list())"',
        ),
        "torch.cuda.get_arch_list()", device=int(str(index)), values=values,
    )  # fmt: skip


def _compiled_late(index: int, told: Words, values: dict[str, str]) -> Finding:
    return Finding(
        "architecture", "warning",
        Words(
            "PyTorch compiles its kernels for this device when it first runs them.",
            "PyTorch 首次运行时才为该设备编译内核。",
        ),
        told,
        Words(
            "The first run takes minutes, and kernels are not tuned for this device.",
            "首次运行需数分钟，且内核没有针对该设备优化。",
        ),
        Words("Install a PyTorch that has its architecture.", "安装含有该架构的 PyTorch。"),
        ("pip install --upgrade torch",), "torch.cuda.get_arch_list()",
        device=index, values=values,
    )  # fmt: skip
