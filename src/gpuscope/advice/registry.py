"""Changes by name: one small file each in `gpuscope/advice/changes/`, each registering itself."""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.advice.change import Change
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.registry import Registry

__all__ = ["changes", "find", "plan", "register"]

CHANGES = Registry[Change](Text("change"), "gpuscope.advice.changes", "gpuscope advise --list")


def register(change: Change) -> Change:
    """Make a change known under its name."""
    known = CHANGES.drop(change.name)
    if known is not None and type(known) is not type(change):
        CHANGES.add(change.name, known)
    return CHANGES.add(change.name, change)


def changes() -> tuple[Change, ...]:
    """All changes, by name."""
    return tuple(CHANGES)


def find(name: str) -> Change:
    """The change of that name.

    Raises:
        UnknownNameError: there is none.
    """
    return CHANGES.get(name)


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
                    Text(
                        "'{one}' and '{other}' cannot go together.", one=one.name, other=other.name
                    ),
                    Text("Each decides the same thing."),
                    Text("Keep one of the two."),
                )
    return tuple(sorted(found, key=lambda change: (change.rank, change.name)))
