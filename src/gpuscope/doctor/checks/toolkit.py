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
from gpuscope.explain.types import Words

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


@check("toolkit", "software", "The CUDA toolkit (nvcc) against the CUDA of PyTorch")
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
        title = Words("No CUDA toolkit is installed.", "没有安装 CUDA 工具包。")
        told = Words(
            "not installed; only needed to compile extensions", "未安装；仅在编译扩展时需要"
        )
        yield Finding("toolkit", "ok", title, told, known_by=by, values=values)
        return
    if at_home and nvcc and at_home != nvcc:
        yield _two(at_home, nvcc, values)
    if version(used)[0] != version(cuda)[0]:
        yield _misfit(used, cuda, by, values)
    elif used != ".".join(str(cuda).split(".")[:2]):
        title = Words(
            f"The toolkit is CUDA {used}, PyTorch is built with {cuda}.",
            f"工具包为 CUDA {used}，PyTorch 用 {cuda} 构建。",
        )
        told = Words(
            "Extensions compile with a warning, and work within one major version.",
            "编译扩展时会有警告，同一主版本内可以工作。",
        )
        yield Finding("toolkit", "note", title, told, known_by=by, values=values)
    else:
        title = Words("The toolkit fits PyTorch.", "工具包与 PyTorch 相符。")
        yield Finding(
            "toolkit", "ok", title,
            Words(f"nvcc {used}, as PyTorch", f"nvcc {used}，与 PyTorch 一致"),
            known_by=by, values=values,
        )  # fmt: skip


def _two(home: str, nvcc: str, values: dict[str, str | None]) -> Finding:
    return Finding(
        "toolkit", "warning",
        Words("CUDA_HOME and the path name two toolkits.", "CUDA_HOME 与 PATH 指向两个工具包。"),
        Words(
            f"CUDA_HOME is CUDA {home}, the nvcc on the path is {nvcc}.",
            f"CUDA_HOME 为 CUDA {home}，PATH 中的 nvcc 为 {nvcc}。",
        ),
        Words(
            "Headers of one and libraries of the other make extensions that fail to load.",
            "头文件与库来自不同版本时，编译出的扩展无法加载。",
        ),
        Words("Let both name the same one.", "让两者指向同一个。"),
        ('export PATH="$CUDA_HOME/bin:$PATH"',), "CUDA_HOME; nvcc --version", values=values,
    )  # fmt: skip


def _misfit(used: str, cuda: str, by: str, values: dict[str, str | None]) -> Finding:
    return Finding(
        "toolkit", "warning",
        Words(
            f"The toolkit (CUDA {used}) does not fit PyTorch (CUDA {cuda}).",
            f"工具包（CUDA {used}）与 PyTorch（CUDA {cuda}）不符。",
        ),
        Words(f"nvcc {used}, PyTorch {cuda}.", f"nvcc {used}，PyTorch {cuda}。"),
        Words(
            "Extensions (flash-attn, apex, your own kernels) refuse to compile, or crash. PyTorch "
            "itself brings its own libraries and works.",
            "扩展（flash-attn、apex、自写内核）会拒绝编译或崩溃。PyTorch 自带所需的库，本身可用。",
        ),
        Words(
            f"Install the toolkit {cuda} beside it and point CUDA_HOME there.",
            f"另外安装 {cuda} 版工具包，并让 CUDA_HOME 指向它。",
        ),
        (f"export CUDA_HOME=/usr/local/cuda-{cuda}",), by, values=values,
    )  # fmt: skip
