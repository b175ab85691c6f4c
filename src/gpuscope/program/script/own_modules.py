"""Modules of the user's own that a script imports: its own next run finds them, another's does not.

Python keeps imported modules for the whole process. Another script's `model` or `utils` is another
file, so what the script before has imported from its folder is forgotten first. For the same script
they stay: modules that register operators of their own cannot be imported twice.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuscope.program.script import Script
from gpuscope.program.user_code import is_library

__all__ = ["own_modules"]

_imported: dict[str, list[str]] = {}
"""Names of modules by the script that imported them; of one script at a time."""


@contextmanager
def own_modules(script: Script) -> Iterator[None]:
    """Forget what another script has imported; note what this one does."""
    source = str(script.file.resolve())
    for other in [name for name in _imported if name != source]:
        for name in _imported.pop(other):
            sys.modules.pop(name, None)
    before = set(sys.modules)
    try:
        yield
    finally:
        folders = (str(Path(source).parent) + os.sep, os.getcwd() + os.sep)
        new = [name for name in sys.modules if name not in before and _lies_in(name, folders)]
        _imported.setdefault(source, []).extend(new)


def _lies_in(name: str, folders: tuple[str, ...]) -> bool:
    file = getattr(sys.modules[name], "__file__", None) or ""
    return file.startswith(folders) and not is_library(file)
