"""Changes by name: one small file each in `gpuscope/advice/changes/`, each registering itself."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from gpuscope.advice.change import Change
from gpuscope.errors import InvalidValueError, UnknownNameError

__all__ = ["changes", "find", "plan", "register"]

_CHANGES: dict[str, Change] = {}
_loaded = False


def register(change: Change) -> Change:
    """Make a change known under its name."""
    if change.name in _CHANGES and type(_CHANGES[change.name]) is not type(change):
        raise ValueError(f"two changes named {change.name}")
    _CHANGES[change.name] = change
    return change


def changes() -> tuple[Change, ...]:
    """All changes, by name."""
    _load()
    return tuple(_CHANGES[name] for name in sorted(_CHANGES))


def find(name: str) -> Change:
    """The change of that name.

    Raises:
        UnknownNameError: there is none.
    """
    _load()
    if name not in _CHANGES:
        raise UnknownNameError("change", name, _CHANGES, "Type: gpuscope advise --list")
    return _CHANGES[name]


def plan(names: Iterable[str]) -> tuple[Change, ...]:
    """Changes to make together, in the order in which they are installed.

    Raises:
        UnknownNameError: one is not known.
        InvalidValueError: two cannot go together.
    """
    found = [find(name) for name in dict.fromkeys(names)]
    for one in found:
        for other in found:
            if other.name in one.excludes:
                raise InvalidValueError(
                    f"'{one.name}' and '{other.name}' cannot go together.",
                    "Each decides the same thing.", "Keep one of the two.",
                )  # fmt: skip
    return tuple(sorted(found, key=lambda change: (change.rank, change.name)))


def _load() -> None:
    global _loaded
    if _loaded:
        return
    from gpuscope.advice import changes as folder

    for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
        importlib.import_module(module.name)
    _loaded = True
