"""Do the search paths name one CUDA, or several?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text, verbatim

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


@check(
    "library_path", "software", Text("LD_LIBRARY_PATH and PATH: one CUDA, and no stub libraries")
)
def run(machine: Machine) -> Iterator[Finding]:
    """Look for stubs and for several CUDA versions."""
    entries = [e for e in (machine.variable("LD_LIBRARY_PATH") or "").split(":") if e]
    libraries = cuda_versions(machine, "LD_LIBRARY_PATH")
    programs = cuda_versions(machine, "PATH")
    values = {"ld_library_path_cuda": ", ".join(libraries), "path_cuda": ", ".join(programs)}
    stubs = [entry for entry in entries if entry.rstrip("/").endswith("stubs")]
    reported = False
    if stubs:
        reported = True
        yield _stubs(stubs[0])
    several = tuple(dict.fromkeys((*programs, *libraries)))
    if len(several) > 1:
        reported = True
        yield _several(programs, libraries, values)
    built = str((torch_facts(machine) or {}).get("cuda_build") or "")
    if libraries and built and not reported and libraries[0] != ".".join(built.split(".")[:2]):
        reported = True
        yield Finding(
            "library_path",
            "note",
            Text(
                "LD_LIBRARY_PATH names CUDA {libraries}; PyTorch brings its own {built}.",
                libraries=libraries[0],
                built=built,
            ),
            Text("Libraries on that path are taken before PyTorch's own."),
            known_by="LD_LIBRARY_PATH",
            values=values,
        )
    if not reported and (several or entries):
        title = Text("The search paths name one CUDA.")
        shown = f"CUDA {several[0]}" if several else "LD_LIBRARY_PATH"
        text = verbatim(shown) if several else Text("no CUDA on them")
        yield Finding(
            "library_path", "ok", title, text, known_by="PATH, LD_LIBRARY_PATH", values=values
        )


def _stubs(entry: str) -> Finding:
    return Finding(
        "library_path",
        "error",
        Text("LD_LIBRARY_PATH names stub libraries."),
        verbatim(f"{entry}"),
        Text("A stub libcuda is for linking only: programs that load it find no device."),
        Text("Take it off the path."),
        ("unset LD_LIBRARY_PATH",),
        "LD_LIBRARY_PATH",
    )


def _several(
    programs: tuple[str, ...], libraries: tuple[str, ...], values: dict[str, str]
) -> Finding:
    path, library = ", ".join(programs) or "-", ", ".join(libraries) or "-"
    return Finding(
        "library_path",
        "warning",
        Text("Several CUDA versions are on the search paths."),
        Text("PATH: {path}; LD_LIBRARY_PATH: {library}.", path=path, library=library),
        Text(
            "Which one is taken depends on their order: a compiler of one version may meet "
            "libraries of the other."
        ),
        Text("Keep one of them."),
        ("echo $PATH $LD_LIBRARY_PATH | tr ': ' '\\n' | grep -i cuda",),
        "PATH, LD_LIBRARY_PATH",
        values=values,
    )
