"""Windows Subsystem for Linux: is the driver Windows' own, as it must be?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.containers import is_wsl
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_FOLDER = "/usr/lib/wsl/lib"
_BY = f"{_FOLDER}, /dev/dxg, dpkg"


@check("wsl", "container", "In WSL: the GPU through Windows' driver")
def run(machine: Machine) -> Iterator[Finding]:
    """Look for the paravirtual device, Windows' libcuda, and a Linux driver that hides it."""
    if not is_wsl(machine):
        return
    if "WSL2" not in (machine.text("/proc/version") or "") and not machine.target("/dev/dxg"):
        yield _first()
        return
    own = "libcuda.so.1" in (machine.entries(_FOLDER) or ())
    linux = machine.target("/usr/lib/x86_64-linux-gnu/libcuda.so.1") or ""
    if linux and not linux.startswith(_FOLDER):
        yield Finding(
            "wsl", "error",
            Words("A Linux driver is installed inside WSL.", "WSL 内安装了 Linux 驱动。"),
            Words(linux, linux),
            Words(
                "It hides the library that Windows gives, and cannot reach the GPU.",
                "它会遮盖 Windows 提供的库，而且无法访问 GPU。",
            ),
            Words(
                "Remove it; install the driver in Windows only.",
                "请将其删除；只在 Windows 中安装驱动。",
            ),
            ("sudo apt purge 'nvidia-driver-*' 'libnvidia-compute-*'",), _BY,
        )  # fmt: skip
    elif own:
        yield Finding(
            "wsl", "ok", Words("WSL uses Windows' driver.", "WSL 使用 Windows 的驱动。"),
            Words("Windows' driver", "Windows 的驱动"), known_by=_BY,
        )  # fmt: skip
    else:
        yield Finding(
            "wsl", "note",
            Words(
                "Windows gives no NVIDIA driver to WSL.", "Windows 未向 WSL 提供 NVIDIA 驱动。"
            ),
            Words(f"No libcuda in {_FOLDER}.", f"{_FOLDER} 中没有 libcuda。"),
            fix=Words(
                "If there is an NVIDIA GPU, install its driver in Windows.",
                "如果有 NVIDIA GPU，请在 Windows 中安装驱动。",
            ),
            known_by=_BY,
        )  # fmt: skip


def _first() -> Finding:
    return Finding(
        "wsl", "error",
        Words("This is WSL 1, which has no GPU.", "这是 WSL 1，不支持 GPU。"),
        Words("There is no /dev/dxg.", "没有 /dev/dxg。"),
        Words("CUDA cannot work here.", "CUDA 无法在此工作。"),
        Words("Convert the system to WSL 2.", "将系统转换为 WSL 2。"),
        ("wsl --set-version <name> 2",), _BY,
    )  # fmt: skip
