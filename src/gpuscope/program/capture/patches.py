"""Replace names for the time of a capture, and put every one back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

_MISSING = object()


class Patches:
    """A list of replacements, undone in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any, *, only_if_present: bool = False) -> None:
        """Replace `owner.name`; remember whether and what it was.

        With `only_if_present` a name that this torch version lacks is left alone.
        """
        original = vars(owner).get(name, _MISSING) if hasattr(owner, "__dict__") else _MISSING
        if only_if_present and not hasattr(owner, name):
            return
        if original is _MISSING:
            self._undo.append(lambda: delattr(owner, name))
        else:
            self._undo.append(lambda: setattr(owner, name, original))
        setattr(owner, name, value)

    def set_item(self, owner: MutableMapping[str, Any], key: str, value: Any) -> None:
        """Replace `owner[key]`, which is there already."""
        original = owner[key]
        self._undo.append(lambda: owner.__setitem__(key, original))
        owner[key] = value

    def on_undo(self, call: Callable[[], None]) -> None:
        """Something else to be done when all is put back."""
        self._undo.append(call)

    def undo(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()


@contextmanager
def patches() -> Iterator[Patches]:
    """A `Patches` that undoes itself at the end of the block."""
    active = Patches()
    try:
        yield active
    finally:
        active.undo()
