"""AMD: is the compute driver there, may it be used, and does ROCm fit PyTorch?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import amd_present, cards, counted, torch_facts
from gpuscope.doctor.containers import container
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.doctor.versions import version
from gpuscope.explain.types import Words


@check("rocm", "software", "AMD's driver and ROCm against the HIP that PyTorch was built with")
def run(machine: Machine) -> Iterator[Finding]:
    """Look for /dev/kfd, versions, and an architecture that is pretended."""
    if not amd_present(machine):
        return
    torch = torch_facts(machine) or {}
    driver = (machine.text("/sys/module/amdgpu/version") or "").strip() or None
    rocm = (machine.text("/opt/rocm/.info/version") or "").strip() or None
    devices = torch.get("devices") or []
    values = {
        "amdgpu": driver, "rocm": rocm, "hip_build": torch.get("hip_build"),
        "gpu_count": len(cards(machine, "amd")) or None,
        "gpus": counted([str(d.get("name")) for d in devices]) or None,
    }  # fmt: skip
    if "kfd" not in (machine.entries("/dev") or ()):
        yield _without_kfd(machine, values)
        return
    if torch.get("hip_build") and not devices:
        yield _unavailable(
            str(torch.get("available_error") or "torch.cuda.is_available() is False"), values
        )
        return
    pretended = machine.variable("HSA_OVERRIDE_GFX_VERSION")
    if pretended:
        yield _pretended(pretended)
    built, there = version(torch.get("hip_build"))[:2], version(rocm)[:2]
    if built and there and built[0] != there[0]:
        yield Finding(
            "rocm", "note",
            Words(
                f"PyTorch is built with ROCm {torch['hip_build']}, the system has {rocm}.",
                f"PyTorch 用 ROCm {torch['hip_build']} 构建，系统中为 {rocm}。",
            ),
            Words(
                "PyTorch brings its own libraries; extensions compile against the system's.",
                "PyTorch 自带所需的库；扩展则用系统的库编译。",
            ),
            known_by="/opt/rocm/.info/version; torch.version.hip", values=values,
        )  # fmt: skip
    elif devices or driver:
        names = ", ".join(dict.fromkeys(str(d.get("name")) for d in devices))
        told = " · ".join(part for part in (names, f"ROCm {rocm}" if rocm else "") if part)
        yield Finding(
            "rocm", "ok", Words("The AMD driver answers.", "AMD 驱动正常响应。"),
            Words(told or f"amdgpu {driver}", told or f"amdgpu {driver}"),
            known_by="/dev/kfd; torch.version.hip", values=values,
        )  # fmt: skip


def _without_kfd(machine: Machine, values: dict[str, str | int | None]) -> Finding:
    inside = container(machine)
    fix = (
        Words("Give the devices to the container.", "把设备交给容器。")
        if inside
        else Words("Install and load the amdgpu driver.", "安装并加载 amdgpu 驱动。")
    )
    command = (
        "docker run --device /dev/kfd --device /dev/dri ..." if inside else "sudo modprobe amdgpu"
    )
    return Finding(
        "rocm", "error",
        Words("AMD's compute interface is not here.", "缺少 AMD 的计算接口。"),
        Words("There is no /dev/kfd.", "没有 /dev/kfd。"),
        Words("No program can compute on the device.", "任何程序都无法使用该设备计算。"),
        fix, (command,), "/dev", values=values,
    )  # fmt: skip


def _unavailable(error: str, values: dict[str, str | int | None]) -> Finding:
    return Finding(
        "rocm", "error",
        Words(
            "The AMD device is there, but PyTorch cannot use it.",
            "有 AMD 设备，但 PyTorch 无法使用。",
        ),
        Words(error, error),
        Words("Everything runs on the CPU.", "一切都在 CPU 上运行。"),
        Words(
            "Often the user is not in the groups render and video.",
            "常见原因是用户不在 render 和 video 组中。",
        ),
        ("sudo usermod -aG render,video $USER", "rocminfo"), "torch.cuda.init()", values=values,
    )  # fmt: skip


def _pretended(name: str) -> Finding:
    return Finding(
        "rocm", "warning",
        Words(
            "The device pretends to be another architecture.", "该设备被伪装成另一种架构。"
        ),
        Words(f"HSA_OVERRIDE_GFX_VERSION={name}", f"HSA_OVERRIDE_GFX_VERSION={name}"),
        Words(
            "Kernels for a device that is not this one may crash or give wrong results.",
            "为其他设备编译的内核可能崩溃或给出错误结果。",
        ),
        Words(
            "Unset it where the device is supported by itself.", "若设备本身受支持，请取消。"
        ),
        ("unset HSA_OVERRIDE_GFX_VERSION",), "HSA_OVERRIDE_GFX_VERSION",
    )  # fmt: skip
