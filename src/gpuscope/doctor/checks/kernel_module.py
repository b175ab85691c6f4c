"""Do the driver's kernel module and its libraries belong together?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuscope.doctor.accelerators import nvidia_present, nvml, torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text

_PATH = "/proc/driver/nvidia/version"
_VERSION = re.compile(r"Kernel Module\s+(?:for \S+\s+)?([\d.]+)")


def module_version(text: str | None) -> str | None:
    """Return the version that the loaded NVIDIA kernel module tells; None if it tells none."""
    found = _VERSION.search(text or "")
    return found.group(1) if found else None


@check(
    "kernel_module", "software", Text("NVIDIA's kernel modules: loaded, and as new as the library")
)
def run(machine: Machine) -> Iterator[Finding]:
    """Compare the module with the library; look for nouveau and a missing nvidia_uvm."""
    if not nvidia_present(machine):
        return
    loaded = {line.split(" ", 1)[0] for line in (machine.text("/proc/modules") or "").splitlines()}
    text = machine.text(_PATH)
    module = module_version(text)
    if module is None:
        if "nouveau" in loaded:
            yield _nouveau()
        return
    library = (nvml(machine) or {}).get("driver")
    flavour = "open" if "Open Kernel Module" in (text or "") else "proprietary"
    values = {"kernel_module": module, "module_flavour": flavour}
    if library and library != module:
        yield Finding(
            "kernel_module",
            "error",
            Text("The kernel module and the driver's library are of different versions."),
            Text("Module {module}, library {library}.", module=module, library=library),
            Text("New programs on the GPU fail to start."),
            Text("Reboot; in a container, start it again so that it mounts the host's new driver."),
            ("sudo reboot",),
            f"{_PATH}; NVML",
            values=values,
        )
        return
    if _uvm_missing(machine, loaded):
        yield Finding(
            "kernel_module",
            "error",
            Text("The module nvidia_uvm is not loaded."),
            Text("nvidia is loaded, nvidia_uvm is not."),
            Text("CUDA cannot be initialised without it."),
            Text("Load it, on the host."),
            ("sudo modprobe nvidia_uvm",),
            "/proc/modules",
            values=values,
        )
        return
    kind = Text("{module} ({flavour} kernel module)", module=module, flavour=_FLAVOURS[flavour])
    title = Text("The kernel module fits the library.")
    yield Finding("kernel_module", "ok", title, kind, known_by=_PATH, values=values)


_FLAVOURS = {"open": Text("open"), "proprietary": Text("proprietary")}


def _uvm_missing(machine: Machine, loaded: set[str]) -> bool:
    """It is loaded when first needed, so only a CUDA that fails makes its absence a fault."""
    torch = torch_facts(machine)
    fails = bool(torch and torch.get("cuda_build") and torch.get("available") is False)
    return fails and "nvidia" in loaded and "nvidia_uvm" not in loaded


def _nouveau() -> Finding:
    return Finding(
        "kernel_module",
        "error",
        Text("The GPU is held by nouveau, not by NVIDIA's driver."),
        Text("nouveau is loaded, nvidia is not."),
        Text("CUDA needs NVIDIA's own driver."),
        Text("Keep nouveau from loading, install NVIDIA's driver, reboot."),
        (
            "echo 'blacklist nouveau' | sudo tee /etc/modprobe.d/blacklist-nouveau.conf",
            "sudo update-initramfs -u && sudo reboot",
        ),
        "/proc/modules",
    )
