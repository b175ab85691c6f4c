"""Do the search paths name one CUDA, or several?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_NUMBERED = re.compile(r"cuda-(\d+\.\d+)")


def cuda_versions(machine: Machine, name: str) -> tuple[str, ...]:
    """Return the CUDA versions that a search path names, in its order, each once.

    Links are followed: /usr/local/cuda is the version that it leads to.
    """
    found: dict[str, None] = {}
    for entry in (machine.variable(name) or "").split(":"):
        if "cuda" not in entry:
            continue
        match = _NUMBERED.search(machine.target(entry) or entry)
        if match:
            found[match.group(1)] = None
    return tuple(found)


@check("library_path", "software", "LD_LIBRARY_PATH and PATH: one CUDA, and no stub libraries")
def run(machine: Machine) -> Iterator[Finding]:
    """Look for stubs and for several CUDA versions."""
    entries = [e for e in (machine.variable("LD_LIBRARY_PATH") or "").split(":") if e]
    libraries = cuda_versions(machine, "LD_LIBRARY_PATH")
    programs = cuda_versions(machine, "PATH")
    values = {"ld_library_path_cuda": ", ".join(libraries), "path_cuda": ", ".join(programs)}
    stubs = [entry for entry in entries if entry.rstrip("/").endswith("stubs")]
    told = False
    if stubs:
        told = True
        yield _stubs(stubs[0])
    several = tuple(dict.fromkeys((*programs, *libraries)))
    if len(several) > 1:
        told = True
        yield _several(programs, libraries, values)
    built = str((torch_facts(machine) or {}).get("cuda_build") or "")
    if libraries and built and not told and libraries[0] != ".".join(built.split(".")[:2]):
        told = True
        yield Finding(
            "library_path", "note",
            Words(
                f"LD_LIBRARY_PATH names CUDA {libraries[0]}; PyTorch brings its own {built}.",
                f"LD_LIBRARY_PATH 指向 CUDA {libraries[0]}；PyTorch 自带 {built}。",
            ),
            Words(
                "Libraries on that path are taken before PyTorch's own.",
                "该路径中的库会先于 PyTorch 自带的库被加载。",
            ),
            known_by="LD_LIBRARY_PATH", values=values,
        )  # fmt: skip
    if not told and (several or entries):
        title = Words("The search paths name one CUDA.", "搜索路径只指向一个 CUDA。")
        shown = f"CUDA {several[0]}" if several else "LD_LIBRARY_PATH"
        text = Words(shown, shown) if several else Words("no CUDA on them", "其中没有 CUDA")
        yield Finding(
            "library_path", "ok", title, text, known_by="PATH, LD_LIBRARY_PATH", values=values
        )


def _stubs(entry: str) -> Finding:
    return Finding(
        "library_path", "error",
        Words("LD_LIBRARY_PATH names stub libraries.", "LD_LIBRARY_PATH 指向了桩库（stubs）。"),
        Words(f"{entry}", f"{entry}"),
        Words(
            "A stub libcuda is for linking only: programs that load it find no device.",
            "桩库 libcuda 只用于链接：加载它的程序找不到设备。",
        ),
        Words("Take it off the path.", "从路径中去掉它。"),
        ("unset LD_LIBRARY_PATH",), "LD_LIBRARY_PATH",
    )  # fmt: skip


def _several(
    programs: tuple[str, ...], libraries: tuple[str, ...], values: dict[str, str]
) -> Finding:
    path, library = ", ".join(programs) or "-", ", ".join(libraries) or "-"
    return Finding(
        "library_path", "warning",
        Words("Several CUDA versions are on the search paths.", "搜索路径中有多个 CUDA 版本。"),
        Words(
            f"PATH: {path}; LD_LIBRARY_PATH: {library}.",
            f"PATH：{path}；LD_LIBRARY_PATH：{library}。",
        ),
        Words(
            "Which one is taken depends on their order: a compiler of one version may meet "
            "libraries of the other.",
            "先后顺序决定使用哪一个：某一版本的编译器可能遇到另一版本的库。",
        ),
        Words("Keep one of them.", "只保留其中一个。"),
        ("echo $PATH $LD_LIBRARY_PATH | tr ': ' '\\n' | grep -i cuda",), "PATH, LD_LIBRARY_PATH",
        values=values,
    )  # fmt: skip
