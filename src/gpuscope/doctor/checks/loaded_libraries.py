"""Which CUDA libraries did PyTorch really load, and is each there only once?"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text, verbatim

_BY = "/proc/self/maps after import torch"

_PARTS = re.compile(r"-[0-9a-f]{8,}|\.so.*$")
_DRIVER = ("libcuda", "libnvidia-ml")
_COMPANY = ("site-packages", "dist-packages")


def copies(loaded: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the libraries of which several files are loaded: name -> their paths.

    The parts of cuDNN (libcudnn_ops, libcudnn_graph, ...) are libraries of their own.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for path in loaded:
        found[_PARTS.sub("", path.rpartition("/")[2])].add(path)
    return {name: tuple(sorted(paths)) for name, paths in sorted(found.items()) if len(paths) > 1}


def strangers(loaded: Sequence[str]) -> tuple[str, ...]:
    """Return libraries from elsewhere, where PyTorch brings its own.

    A PyTorch that a system or container was built around loads all from system folders: then none
    is a stranger.
    """
    own = [path for path in loaded if any(part in path for part in _COMPANY)]
    known = [p for p in loaded if not p.rpartition("/")[2].startswith(_DRIVER)]
    return tuple(sorted(set(known) - set(own))) if own else ()


@check(
    "loaded_libraries", "software", Text("The CUDA libraries that PyTorch really loads, each once")
)
def run(machine: Machine) -> Iterator[Finding]:
    """Look for copies, and for libraries from another installation."""
    torch = torch_facts(machine) or {}
    loaded = [str(path) for path in torch.get("loaded") or ()]
    if not loaded or not (torch.get("cuda_build") or torch.get("hip_build")):
        return
    twice = copies(loaded)
    outside = strangers(loaded) if not twice else ()
    values = {_PARTS.sub("", p.rpartition("/")[2]): p for p in loaded}
    if twice:
        yield _twice(twice)
    elif outside:
        yield _outside(outside)
    else:
        yield Finding(
            "loaded_libraries",
            "ok",
            Text("Each library is loaded once."),
            Text("{loaded} libraries, each once", loaded=len(loaded)),
            known_by=_BY,
            values=values,
        )


def _twice(twice: dict[str, tuple[str, ...]]) -> Finding:
    name, paths = next(iter(twice.items()))
    shown = ", ".join(f"{key}: {' + '.join(value)}" for key, value in list(twice.items())[:3])
    return Finding(
        "loaded_libraries",
        "warning",
        Text("{name} is loaded twice, from two places.", name=name),
        verbatim(shown),
        Text(
            "Two copies of one library keep two states and may be of two versions: crashes, wrong "
            "status codes, hangs in collectives."
        ),
        Text(
            "Take the folder of the one that PyTorch did not bring off LD_LIBRARY_PATH, or remove "
            "the package that brings it."
        ),
        (f"pip list | grep -i {name.removeprefix('lib')}", "echo $LD_LIBRARY_PATH"),
        _BY,
        values={"copies": " ".join(paths)},
    )


def _outside(outside: tuple[str, ...]) -> Finding:
    shown = ", ".join(outside[:4])
    return Finding(
        "loaded_libraries",
        "note",
        Text("Some libraries come from elsewhere than PyTorch's own."),
        verbatim(shown),
        fix=Text("If something fails strangely, try without LD_LIBRARY_PATH."),
        known_by=_BY,
        values={"outside": " ".join(outside)},
    )
