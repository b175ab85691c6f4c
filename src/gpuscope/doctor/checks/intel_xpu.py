"""Intel: does PyTorch's XPU build see the device?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import cards, counted, torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text


@check("intel_xpu", "software", Text("Intel's devices and the XPU build of PyTorch"))
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
        title = Text("PyTorch sees the Intel device.")
        evidence = Text("{names}, XPU {built}", names=names, built=built)
        yield Finding("intel_xpu", "ok", title, evidence, known_by="torch.xpu", values=values)
    elif accelerators and built:
        yield Finding(
            "intel_xpu",
            "error",
            Text("PyTorch is built for Intel's devices, but sees none."),
            Text("{accelerators} on the PCI bus.", accelerators=len(accelerators)),
            Text("Everything runs on the CPU."),
            Text("Install the compute runtime (Level Zero) and join the group render."),
            ("sudo apt install libze1 libze-intel-gpu1", "sudo usermod -aG render $USER"),
            "torch.xpu.is_available(); /sys/bus/pci",
            values=values,
        )
    elif accelerators:
        yield Finding(
            "intel_xpu",
            "note",
            Text("There is an Intel accelerator, and PyTorch is not built for it."),
            Text("{accelerators} on the PCI bus.", accelerators=len(accelerators)),
            fix=Text("Install the XPU build of PyTorch."),
            known_by="/sys/bus/pci; torch.version.xpu",
            values=values,
        )
