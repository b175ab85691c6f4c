"""Replace names for the time of a capture, and put every one back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MISSING = object()


class Patches:
    """A list of attribute replacements, undone in reverse order."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any, *, only_if_present: bool = False) -> None:
        """Replace `owner.name`; remember whether and what it was.

        With `only_if_present` a name that this torch version lacks is left alone.
        """
        original = vars(owner).get(name, _MISSING) if hasattr(owner, "__dict__") else _MISSING
        if only_if_present and not hasattr(owner, name):
            return
        self._undo.append((owner, name, original))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Put everything back."""
        while self._undo:
            owner, name, original = self._undo.pop()
            if original is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


@contextmanager
def patches() -> Iterator[Patches]:
    """A `Patches` that undoes itself at the end of the block."""
    active = Patches()
    try:
        yield active
    finally:
        active.undo()
