"""Do cuDNN and NCCL, asked as they run, say the versions of the packages that are installed?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.doctor.versions import Version, version
from gpuscope.document.text import Text, joined

_BY = "torch.backends.cudnn.version(); torch.cuda.nccl.version(); metadata of packages"


def cudnn_version(number: object) -> Version:
    """Return cuDNN's version from the number that it tells; () if it is none.

    91900 is 9.19.0 and 8902 is 8.9.2: from version 9 on the major version counts 10,000 (cudnn.h,
    CUDNN_VERSION).
    """
    if not isinstance(number, int) or number <= 0:
        return ()
    major, rest = divmod(number, 10_000 if number >= 90_000 else 1_000)
    return major, rest // 100, rest % 100


def _package(packages: Mapping[str, Any], name: str) -> str | None:
    """The version of nvidia-<name>-cu12, -cu13, ...; None where none or several are installed."""
    found = {str(v) for k, v in packages.items() if k.startswith(f"nvidia-{name}-cu")}
    return found.pop() if len(found) == 1 else None


@check(
    "running_libraries",
    "software",
    Text("cuDNN and NCCL as they run against the installed packages"),
)
def run(machine: Machine) -> Iterator[Finding]:
    """Compare what the libraries say of themselves with what is installed beside PyTorch."""
    torch = torch_facts(machine) or {}
    if not torch.get("cuda_build"):
        return
    packages = torch.get("packages") or {}
    running = {"cudnn": cudnn_version(torch.get("cudnn")), "nccl": version(torch.get("nccl"))}
    names = {"cudnn": "cuDNN", "nccl": "NCCL"}
    values = {name: ".".join(map(str, v)) for name, v in running.items() if v}
    fine = []
    for name, runs in running.items():
        installed = _package(packages, name)
        if not runs or installed is None:
            continue
        if version(installed)[: len(runs)] == runs:
            fine.append(f"{names[name]} {values[name]}")
        else:
            yield _other(names[name], name, values[name], installed)
    if fine:
        title = Text("The libraries that run are those installed.")
        evidence = joined(fine)
        yield Finding("running_libraries", "ok", title, evidence, known_by=_BY, values=values)


def _other(shown: str, name: str, runs: str, installed: str) -> Finding:
    return Finding(
        "running_libraries",
        "warning",
        Text("Another {shown} runs than is installed with PyTorch.", shown=shown),
        Text("{runs} runs, {installed} is installed.", runs=runs, installed=installed),
        Text("A library on the search path is taken instead: functions may be missing or slow."),
        Text("Take its folder off LD_LIBRARY_PATH, or unset LD_PRELOAD."),
        ("echo $LD_LIBRARY_PATH $LD_PRELOAD",),
        _BY,
        values={f"{name}_installed": installed},
    )
