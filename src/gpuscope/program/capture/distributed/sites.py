"""The user's own line that asked for something."""

from __future__ import annotations

import os
import sys
from functools import cache

from gpuscope.program.user_code import is_library, is_plumbing

_foreign = cache(is_library)


_plumbing = cache(is_plumbing)


def line() -> str:
    """ "model.py:12": the innermost line outside of PyTorch, a library's too; "" if none is."""
    frame = sys._getframe(1)
    while frame is not None and _plumbing(frame.f_code.co_filename):
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def site() -> str:
    """ "train.py:12": the innermost line of the user's code that is running, "" if none is."""
    frame = sys._getframe(1)
    while frame is not None:
        if not _foreign(frame.f_code.co_filename):
            return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""
