"""The user's own line that asked for something."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import cache
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parents[3])
_STDLIB = sysconfig.get_paths()["stdlib"]


@cache
def _foreign(file: str) -> bool:
    inside = file.startswith((_PACKAGE, _STDLIB, "<"))
    return inside or f"{os.sep}site-packages{os.sep}" in file or "dist-packages" in file


def site() -> str:
    """"train.py:12": the innermost line of the user's code that is running, "" if none is."""
    frame = sys._getframe(1)
    while frame is not None:
        if not _foreign(frame.f_code.co_filename):
            return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""
