"""Names that are replaced for a while, and put back only where the replacement still stands.

A capture replaces names of torch too, and may have put them back by the time that ours are undone.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from gpuscope.program.capture.patches import by_thread, here
from gpuscope.program.user_code import is_library

__all__ = ["Replaced"]

_MISSING = object()


class Replaced:
    """Replacements, undone in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._settings: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace `owner.name`; for settings (properties of torch's modules) as for functions."""
        held = vars(owner).get(name, _MISSING) if isinstance(owner, type) else _MISSING
        before = getattr(owner, name, _MISSING) if held is _MISSING else held
        inherited = isinstance(owner, type) and held is _MISSING
        if inspect.isfunction(value) and callable(before) and here():
            value = by_thread(value, before)  # what another thread makes is not to be changed
        setattr(owner, name, value)
        if not callable(value):
            self._settings.append((owner, name, value))

        def undo() -> None:
            if inherited or before is _MISSING:
                if vars(owner).get(name, _MISSING) is value:
                    delattr(owner, name)
                return
            now = vars(owner).get(name) if isinstance(owner, type) else getattr(owner, name, None)
            if now is value or now == value:
                setattr(owner, name, before)

        self._undo.append(undo)

    def in_user_modules(self, name: str, original: Any, value: Any) -> None:
        """Replace what modules have imported by name (`from torch... import fully_shard`)."""
        for module in list(sys.modules.values()):
            if not isinstance(module, ModuleType) or _is_librarys(module):
                continue
            if vars(module).get(name) is original:
                self.set(module, name, value)

    def at_end(self, undo: Callable[[], None]) -> None:
        """Something else to be undone."""
        self._undo.append(undo)

    def insist(self) -> None:
        """Set settings again that the code itself has set otherwise since."""
        for owner, name, value in self._settings:
            if getattr(owner, name, _MISSING) != value:
                setattr(owner, name, value)

    def undo(self) -> None:
        """Put everything back."""
        self._settings.clear()
        while self._undo:
            self._undo.pop()()


def _is_librarys(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None) or ""
    return not file or is_library(file)
