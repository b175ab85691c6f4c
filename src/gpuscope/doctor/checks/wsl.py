"""Windows Subsystem for Linux: is the driver Windows' own, as it must be?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.containers import is_wsl
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text, verbatim

_FOLDER = "/usr/lib/wsl/lib"
_BY = f"{_FOLDER}, /dev/dxg, dpkg"


@check("wsl", "container", Text("In WSL: the GPU through Windows' driver"))
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
            "wsl",
            "error",
            Text("A Linux driver is installed inside WSL."),
            verbatim(linux),
            Text("It hides the library that Windows gives, and cannot reach the GPU."),
            Text("Remove it; install the driver in Windows only."),
            ("sudo apt purge 'nvidia-driver-*' 'libnvidia-compute-*'",),
            _BY,
        )
    elif own:
        yield Finding(
            "wsl", "ok", Text("WSL uses Windows' driver."), Text("Windows' driver"), known_by=_BY
        )
    else:
        yield Finding(
            "wsl",
            "note",
            Text("Windows gives no NVIDIA driver to WSL."),
            Text("No libcuda in {folder}.", folder=_FOLDER),
            fix=Text("If there is an NVIDIA GPU, install its driver in Windows."),
            known_by=_BY,
        )


def _first() -> Finding:
    return Finding(
        "wsl",
        "error",
        Text("This is WSL 1, which has no GPU."),
        Text("There is no /dev/dxg."),
        Text("CUDA cannot work here."),
        Text("Convert the system to WSL 2."),
        ("wsl --set-version <name> 2",),
        _BY,
    )
