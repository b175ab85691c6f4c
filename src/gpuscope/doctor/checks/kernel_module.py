"""Do the driver's kernel module and its libraries belong together?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuscope.doctor.accelerators import nvidia_present, nvml, torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_PATH = "/proc/driver/nvidia/version"
_VERSION = re.compile(r"Kernel Module\s+(?:for \S+\s+)?([\d.]+)")


def module_version(text: str | None) -> str | None:
    """Return the version that the loaded NVIDIA kernel module tells; None if it tells none."""
    found = _VERSION.search(text or "")
    return found.group(1) if found else None


@check("kernel_module", "software", "NVIDIA's kernel modules: loaded, and as new as the library")
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
            "kernel_module", "error",
            Words(
                "The kernel module and the driver's library are of different versions.",
                "内核模块与驱动库的版本不一致。",
            ),
            Words(f"Module {module}, library {library}.", f"模块 {module}，库 {library}。"),
            Words("New programs on the GPU fail to start.", "新的 GPU 程序无法启动。"),
            Words(
                "Reboot; in a container, start it again so that it mounts the host's new driver.",
                "请重启；在容器中，请重新启动容器以挂载主机的新驱动。",
            ),
            ("sudo reboot",), f"{_PATH}; NVML", values=values,
        )  # fmt: skip
        return
    if _uvm_missing(machine, loaded):
        yield Finding(
            "kernel_module", "error",
            Words("The module nvidia_uvm is not loaded.", "没有加载 nvidia_uvm 模块。"),
            Words("nvidia is loaded, nvidia_uvm is not.", "已加载 nvidia，未加载 nvidia_uvm。"),
            Words("CUDA cannot be initialised without it.", "没有它，CUDA 无法初始化。"),
            Words("Load it, on the host.", "在主机上加载它。"),
            ("sudo modprobe nvidia_uvm",), "/proc/modules", values=values,
        )  # fmt: skip
        return
    kind = Words(f"{module} ({flavour} kernel module)", f"{module}（{_CHINESE[flavour]}内核模块）")
    title = Words("The kernel module fits the library.", "内核模块与驱动库相符。")
    yield Finding("kernel_module", "ok", title, kind, known_by=_PATH, values=values)


_CHINESE = {"open": "开源", "proprietary": "专有"}


def _uvm_missing(machine: Machine, loaded: set[str]) -> bool:
    """It is loaded when first needed, so only a CUDA that fails makes its absence a fault."""
    torch = torch_facts(machine)
    fails = bool(torch and torch.get("cuda_build") and torch.get("available") is False)
    return fails and "nvidia" in loaded and "nvidia_uvm" not in loaded


def _nouveau() -> Finding:
    return Finding(
        "kernel_module", "error",
        Words("The GPU is held by nouveau, not by NVIDIA's driver.", "GPU 由 nouveau 驱动占用。"),
        Words("nouveau is loaded, nvidia is not.", "已加载 nouveau，未加载 nvidia。"),
        Words("CUDA needs NVIDIA's own driver.", "CUDA 需要 NVIDIA 自己的驱动。"),
        Words(
            "Keep nouveau from loading, install NVIDIA's driver, reboot.",
            "禁止加载 nouveau，安装 NVIDIA 驱动，然后重启。",
        ),
        (
            "echo 'blacklist nouveau' | sudo tee /etc/modprobe.d/blacklist-nouveau.conf",
            "sudo update-initramfs -u && sudo reboot",
        ),
        "/proc/modules",
    )  # fmt: skip
