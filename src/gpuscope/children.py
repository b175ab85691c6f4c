"""The one way to start another Python: it runs this gpuscope, and no file of the current folder.

`python -m` puts the current folder first on the path: a `numpy.py` that lies where the user happens
to be would be run. `-P` (Python 3.11) leaves it out; a user's script still finds what lies beside
it, because whoever loads it adds its folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

OURS = str(Path(__file__).resolve().parents[1])
"""The folder that holds this package."""


def python(module: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    """Return the command that runs a module in a process of its own.

    Args:
        module: its full name.
        arguments: its own.
        options: more options of Python's (("-X", "faulthandler")).
    """
    return [sys.executable, "-P", *options, "-m", module, *arguments]


def torchrun(processes: int, module: str, *arguments: str) -> list[str]:
    """Return the command that starts a module once for each of some ranks, on this machine."""
    launcher = ("--standalone", "--nproc-per-node", str(processes), "--no-python")
    return python("torch.distributed.run", *launcher, *python(module, *arguments))


def environment(given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment in which the child finds this very package, after all others' paths."""
    paths = [path for path in given.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {**given, "PYTHONPATH": os.pathsep.join([*paths, OURS])}
