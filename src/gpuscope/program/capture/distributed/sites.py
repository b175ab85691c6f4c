"""The user's own line that asked for something."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from types import FrameType

from gpuscope.program.user_code import is_library, is_plumbing

_foreign = cache(is_library)


_plumbing = cache(is_plumbing)

_paths: defaultdict[str, set[str]] = defaultdict(set)
"""Files whose lines were named in this process, by their last part."""


def line() -> str:
    """ "model.py:12": the innermost line outside of PyTorch, a library's too; "" if none is."""
    frame = sys._getframe(1)
    while frame is not None and _plumbing(frame.f_code.co_filename):
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return _named(frame)


def site() -> str:
    """ "train.py:12": the innermost line of the user's code that is running, "" if none is."""
    frame = sys._getframe(1)
    while frame is not None:
        if not _foreign(frame.f_code.co_filename):
            return _named(frame)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""


def files_of(lines: Iterable[str]) -> dict[str, str]:
    """Paths of the files that lines ("model.py:12") are of, by their last part.

    Those of which two share it are left out: which of them a line is of is not known.
    """
    names = dict.fromkeys(line.rpartition(":")[0] for line in lines if line)
    return {name: next(iter(_paths[name])) for name in names if len(_paths[name]) == 1}


def _named(frame: FrameType) -> str:
    path = frame.f_code.co_filename
    name = os.path.basename(path)
    _paths[name].add(path)
    return f"{name}:{frame.f_lineno}"
