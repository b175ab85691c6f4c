"""Which source files are the user's own, and which a library's."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

from gpuscope.document.text import Text

__all__ = ["is_library", "is_plumbing", "user_line"]

_OURS = str(Path(__file__).resolve().parents[1]) + os.sep
_MODELS = os.path.join(_OURS, "program", "models", "")
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python")


def is_library(file: str) -> bool:
    """Whether a source file belongs to an installed package, to Python or to gpuscope.

    Args:
        file: its path, as a code object or a module has it.
    """
    path = file.replace("\\", "/")
    return file.startswith((_OURS, _STDLIB, "<")) or any(part in path for part in _INSTALLED)


def is_plumbing(file: str) -> bool:
    """Whether a source file is Python's, PyTorch's or gpuscope's own, built-in models apart.

    Args:
        file: its path, as a code object or a module has it.
    """
    path = file.replace("\\", "/")
    if file.startswith(_MODELS):
        return False
    if any(part in path for part in _INSTALLED[:2]):
        return "/torch/" in path
    return file.startswith((_OURS, _STDLIB, "<"))


def user_line(error: BaseException) -> Text:
    """Return " (line 12 of train.py)": the innermost line of the user's that an error came through.

    "" where there is none.
    """
    place, at = Text(""), error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        if not is_library(file):
            place = Text(" (line {line} of {file})", line=at.tb_lineno, file=file)
        at = at.tb_next
    return place
