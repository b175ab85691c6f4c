"""Which source files are the user's own, and which a library's."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["is_library"]

_OURS = str(Path(__file__).resolve().parents[1]) + os.sep
_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python")


def is_library(file: str) -> bool:
    """Whether a source file belongs to an installed package, to Python or to gpuscope.

    Args:
        file: its path, as a code object or a module has it.
    """
    path = file.replace("\\", "/")
    return file.startswith((_OURS, "<")) or any(part in path for part in _INSTALLED)
