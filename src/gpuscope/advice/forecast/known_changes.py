"""What a search knows of changes before any trial: what goes together, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuscope.advice.registry import find
from gpuscope.advice.results import Forecast
from gpuscope.advice.types import ChangeCase

__all__ = ["KnownChanges", "free_of_conflicts", "in_order", "with_unforeseen", "work_of"]

Names = tuple[str, ...]


class KnownChanges:
    """What the search has to know of registered changes."""

    def conflict(self, one: str, other: str) -> bool:
        """Whether two changes cannot go together."""
        a, b = find(one), find(other)
        return one != other and (other in a.excludes or one in b.excludes)

    def compiles(self, name: str) -> bool:
        """Whether it compiles or records, which takes long."""
        return find(name).compiles


def with_unforeseen(path: Names, singles: Sequence[Forecast], case: ChangeCase) -> Names:
    """The path, and what goes with it whose gain no prediction knows.

    Args:
        path: names of the predicted best combination.
        singles: what may be tried.
        case: the workload.
    """
    rules, found = KnownChanges(), list(path)
    for single in singles:
        name = single.names[0]
        apart = name in found or any(rules.conflict(name, other) for other in found)
        if single.run is not None and not apart and find(name).unforeseen(case):
            found.append(name)
    return tuple(found)


def in_order(path: Iterable[Forecast]) -> Names:
    """Names in the order in which the combination was built up."""
    order: list[str] = []
    for forecast in path:
        order += [n for n in forecast.names if n not in order]
        order = [n for n in order if n in forecast.names]
    return tuple(order)


def free_of_conflicts(names: Sequence[str]) -> Names:
    """As many as go together, the first ones first."""
    rules, found = KnownChanges(), list[str]()
    for name in names:
        if not any(rules.conflict(name, other) for other in found):
            found.append(name)
    return tuple(found)


def work_of(samples: int | None, tokens: int | None) -> tuple[str, int | None]:
    """Unit and amount of a step's work; ("", None) where unknown."""
    if tokens:
        return "tokens", tokens
    return ("samples", samples) if samples else ("", None)
