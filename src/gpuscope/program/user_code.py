"""Which source files are the user's own, and which a library's."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

__all__ = ["is_library", "user_line"]

_OURS = str(Path(__file__).resolve().parents[1]) + os.sep
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python")


def is_library(file: str) -> bool:
    """Whether a source file belongs to an installed package, to Python or to gpuscope.

    Args:
        file: its path, as a code object or a module has it.
    """
    path = file.replace("\\", "/")
    return file.startswith((_OURS, _STDLIB, "<")) or any(part in path for part in _INSTALLED)


def user_line(error: BaseException) -> str:
    """Return " (line 12 of train.py)": the innermost line of the user's that an error came through.

    "" where there is none.
    """
    place, at = "", error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        if not is_library(file):
            place = f" (line {at.tb_lineno} of {file})"
        at = at.tb_next
    return place
