"""Intel: does PyTorch's XPU build see the device?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import cards, counted, torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words


@check("intel_xpu", "software", "Intel's devices and the XPU build of PyTorch")
def run(machine: Machine) -> Iterator[Finding]:
    """A processor's own graphics is left in peace: only a separate card or an XPU build counts."""
    torch = torch_facts(machine) or {}
    accelerators = [card for card in cards(machine, "intel") if not card.display]
    built, devices = torch.get("xpu_build"), torch.get("devices") or []
    kind = torch.get("device_kind")
    values = {"xpu_build": built, "gpu_count": len(accelerators) or None, "gpus": None}
    if kind == "xpu" and devices:
        names = counted([str(d.get("name")) for d in devices])
        values["gpus"] = names
        title = Words("PyTorch sees the Intel device.", "PyTorch 可见 Intel 设备。")
        told = Words(f"{names}, XPU {built}", f"{names}，XPU {built}")
        yield Finding("intel_xpu", "ok", title, told, known_by="torch.xpu", values=values)
    elif accelerators and built:
        yield Finding(
            "intel_xpu", "error",
            Words("PyTorch is built for Intel's devices, but sees none.",
                  "PyTorch 支持 Intel 设备，但没有看到任何设备。"),
            Words(f"{len(accelerators)} on the PCI bus.", f"PCI 总线上有 {len(accelerators)} 个。"),
            Words("Everything runs on the CPU.", "一切都在 CPU 上运行。"),
            Words(
                "Install the compute runtime (Level Zero) and join the group render.",
                "安装计算运行时（Level Zero），并加入 render 组。",
            ),
            ("sudo apt install libze1 libze-intel-gpu1", "sudo usermod -aG render $USER"),
            "torch.xpu.is_available(); /sys/bus/pci", values=values,
        )  # fmt: skip
    elif accelerators:
        yield Finding(
            "intel_xpu", "note",
            Words("There is an Intel accelerator, and PyTorch is not built for it.",
                  "有 Intel 加速器，但 PyTorch 并非为其构建。"),
            Words(f"{len(accelerators)} on the PCI bus.", f"PCI 总线上有 {len(accelerators)} 个。"),
            fix=Words("Install the XPU build of PyTorch.", "安装 PyTorch 的 XPU 版本。"),
            known_by="/sys/bus/pci; torch.version.xpu", values=values,
        )  # fmt: skip
