"""AMD: is the compute driver there, may it be used, and does ROCm fit PyTorch?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.accelerators import amd_present, cards, counted, torch_facts
from gpuscope.doctor.containers import container
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.doctor.versions import version
from gpuscope.document.text import Text, verbatim


@check(
    "rocm", "software", Text("AMD's driver and ROCm against the HIP that PyTorch was built with")
)
def run(machine: Machine) -> Iterator[Finding]:
    """Look for /dev/kfd, versions, and an architecture that is pretended."""
    if not amd_present(machine):
        return
    torch = torch_facts(machine) or {}
    driver = (machine.text("/sys/module/amdgpu/version") or "").strip() or None
    rocm = (machine.text("/opt/rocm/.info/version") or "").strip() or None
    devices = torch.get("devices") or []
    values = {
        "amdgpu": driver,
        "rocm": rocm,
        "hip_build": torch.get("hip_build"),
        "gpu_count": len(cards(machine, "amd")) or None,
        "gpus": counted([str(d.get("name")) for d in devices]) or None,
    }
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
            "rocm",
            "note",
            Text(
                "PyTorch is built with ROCm {torch}, the system has {rocm}.",
                torch=torch["hip_build"],
                rocm=rocm,
            ),
            Text("PyTorch brings its own libraries; extensions compile against the system's."),
            known_by="/opt/rocm/.info/version; torch.version.hip",
            values=values,
        )
    elif devices or driver:
        names = ", ".join(dict.fromkeys(str(d.get("name")) for d in devices))
        evidence = " · ".join(part for part in (names, f"ROCm {rocm}" if rocm else "") if part)
        yield Finding(
            "rocm",
            "ok",
            Text("The AMD driver answers."),
            verbatim(evidence or f"amdgpu {driver}"),
            known_by="/dev/kfd; torch.version.hip",
            values=values,
        )


def _without_kfd(machine: Machine, values: dict[str, str | int | None]) -> Finding:
    inside = container(machine)
    fix = (
        Text("Give the devices to the container.")
        if inside
        else Text("Install and load the amdgpu driver.")
    )
    command = (
        "docker run --device /dev/kfd --device /dev/dri ..." if inside else "sudo modprobe amdgpu"
    )
    return Finding(
        "rocm",
        "error",
        Text("AMD's compute interface is not here."),
        Text("There is no /dev/kfd."),
        Text("No program can compute on the device."),
        fix,
        (command,),
        "/dev",
        values=values,
    )


def _unavailable(error: str, values: dict[str, str | int | None]) -> Finding:
    return Finding(
        "rocm",
        "error",
        Text("The AMD device is there, but PyTorch cannot use it."),
        verbatim(error),
        Text("Everything runs on the CPU."),
        Text("Often the user is not in the groups render and video."),
        ("sudo usermod -aG render,video $USER", "rocminfo"),
        "torch.cuda.init()",
        values=values,
    )


def _pretended(name: str) -> Finding:
    return Finding(
        "rocm",
        "warning",
        Text("The device pretends to be another architecture."),
        verbatim(f"HSA_OVERRIDE_GFX_VERSION={name}"),
        Text("Kernels for a device that is not this one may crash or give wrong results."),
        Text("Unset it where the device is supported by itself."),
        ("unset HSA_OVERRIDE_GFX_VERSION",),
        "HSA_OVERRIDE_GFX_VERSION",
    )
