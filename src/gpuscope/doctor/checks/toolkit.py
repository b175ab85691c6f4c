"""Does the CUDA toolkit (nvcc) fit PyTorch?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.doctor.versions import version
from gpuscope.document.text import Text

_RELEASE = re.compile(r"release (\d+\.\d+)")


def nvcc_version(machine: Machine) -> str | None:
    """Return the version of the nvcc on the path, as "12.8"; None without one."""
    answer = machine.command("nvcc", "--version")
    found = _RELEASE.search(answer.out) if answer is not None and answer.ok else None
    return found.group(1) if found else None


def toolkit_version(machine: Machine, folder: str) -> str | None:
    """Return the version of the toolkit in a folder, by its version.json; None if not told."""
    try:
        data = json.loads(machine.text(f"{folder}/version.json") or "")
        return ".".join(str(data["cuda"]["version"]).split(".")[:2])
    except (ValueError, KeyError, TypeError):
        return None


@check("toolkit", "software", Text("The CUDA toolkit (nvcc) against the CUDA of PyTorch"))
def run(machine: Machine) -> Iterator[Finding]:
    """Compare versions; without nvcc there is nothing to fit."""
    torch = torch_facts(machine)
    cuda = (torch or {}).get("cuda_build")
    if not cuda:
        return
    nvcc = nvcc_version(machine)
    home = machine.variable("CUDA_HOME") or machine.variable("CUDA_PATH")
    at_home = toolkit_version(machine, home.rstrip("/")) if home else None
    used = at_home or nvcc
    values = {"nvcc": nvcc, "cuda_home": at_home, "cuda_build": cuda}
    by = "nvcc --version; CUDA_HOME; torch.version.cuda"
    if used is None:
        title = Text("No CUDA toolkit is installed.")
        evidence = Text("not installed; only needed to compile extensions")
        yield Finding("toolkit", "ok", title, evidence, known_by=by, values=values)
        return
    if at_home and nvcc and at_home != nvcc:
        yield _two(at_home, nvcc, values)
    if version(used)[0] != version(cuda)[0]:
        yield _misfit(used, cuda, by, values)
    elif used != ".".join(str(cuda).split(".")[:2]):
        title = Text(
            "The toolkit is CUDA {used}, PyTorch is built with {cuda}.", used=used, cuda=cuda
        )
        evidence = Text("Extensions compile with a warning, and work within one major version.")
        yield Finding("toolkit", "note", title, evidence, known_by=by, values=values)
    else:
        title = Text("The toolkit fits PyTorch.")
        yield Finding(
            "toolkit",
            "ok",
            title,
            Text("nvcc {used}, as PyTorch", used=used),
            known_by=by,
            values=values,
        )


def _two(home: str, nvcc: str, values: dict[str, str | None]) -> Finding:
    return Finding(
        "toolkit",
        "warning",
        Text("CUDA_HOME and the path name two toolkits."),
        Text("CUDA_HOME is CUDA {home}, the nvcc on the path is {nvcc}.", home=home, nvcc=nvcc),
        Text("Headers of one and libraries of the other make extensions that fail to load."),
        Text("Let both name the same one."),
        ('export PATH="$CUDA_HOME/bin:$PATH"',),
        "CUDA_HOME; nvcc --version",
        values=values,
    )


def _misfit(used: str, cuda: str, by: str, values: dict[str, str | None]) -> Finding:
    return Finding(
        "toolkit",
        "warning",
        Text("The toolkit (CUDA {used}) does not fit PyTorch (CUDA {cuda}).", used=used, cuda=cuda),
        Text("nvcc {used}, PyTorch {cuda}.", used=used, cuda=cuda),
        Text(
            "Extensions (flash-attn, apex, your own kernels) refuse to compile, or crash. PyTorch "
            "itself brings its own libraries and works."
        ),
        Text("Install the toolkit {cuda} beside it and point CUDA_HOME there.", cuda=cuda),
        (f"export CUDA_HOME=/usr/local/cuda-{cuda}",),
        by,
        values=values,
    )
