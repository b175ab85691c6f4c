"""What tools have made, by a short name: documents for `details`, pages for resources."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuscope.document.plain import Json, dumps
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.mcp.types import Details

if TYPE_CHECKING:
    from gpuscope.document.blocks import Explanation
    from gpuscope.run import Run

KEPT = 32
"""Results that are kept; the oldest go first."""

LONGEST = 20_000
"""Characters of a part that `details` returns whole; longer ones tell their keys or fewer rows."""


@dataclass(frozen=True, slots=True)
class Result:
    """One result: its document, and what it was made of where a page can be drawn of that."""

    document: Json
    run: Run | None = None
    explanation: Explanation | None = None


@dataclass(slots=True)
class Results:
    """Results by name, the last `KEPT`."""

    _held: OrderedDict[str, Result] = field(default_factory=OrderedDict)
    _count: int = 0

    def keep(self, sort: str, result: Result) -> str:
        """Keep a result; return its name, such as "run-3"."""
        self._count += 1
        name = f"{sort}-{self._count}"
        self._held[name] = result
        while len(self._held) > KEPT:
            self._held.popitem(last=False)
        return name

    def get(self, name: str) -> Result:
        """Return a result.

        Raises:
            UnknownNameError: there is none of that name, or it has gone.
        """
        if name not in self._held:
            raise UnknownNameError(Text("result"), name, list(self._held))
        return self._held[name]

    def run(self, name: str) -> Run:
        """Return the run of a result.

        Raises:
            UnknownNameError: as `get`.
            InvalidValueError: it is none.
        """
        found = self.get(name).run
        if found is None:
            raise InvalidValueError(
                Text("{name} is no run.", name=name),
                "",
                Text("Name a result of predict or analyze."),
            )
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._held


def details(results: Results, name: str, path: str, rows: int) -> Details:
    """Return a part of a result's document.

    Args:
        results: where it is kept.
        name: of the result.
        path: "analysis.operators"; "analysis.findings.0" for one row; "" for the top.
        rows: most rows of a list.

    Raises:
        UnknownNameError: no such result, or nothing at the path.
        InvalidValueError: fewer than one row, or below what has no parts.
    """
    if rows < 1:
        raise InvalidValueError(
            Text("{name} = {value} cannot be.", name="rows", value=str(rows)),
            "",
            Text("Ask for 20."),
        )
    part: Any = results.get(name).document
    for step in filter(None, path.split(".")):
        part = _below(part, step)
    left = 0
    if isinstance(part, list):
        left = max(0, len(part) - rows)
        part = part[:rows]
    text = dumps(part)
    while isinstance(part, list) and len(text) > LONGEST and len(part) > 1:
        left += len(part) - len(part) // 2
        part = part[: len(part) // 2]
        text = dumps(part)
    fits = len(text) <= LONGEST
    return Details(name, path, () if fits else _keys(part), text if fits else "", left)


def _below(part: Any, step: str) -> Any:
    if isinstance(part, Mapping):
        if step in part:
            return part[step]
        raise UnknownNameError(Text("part"), step, list(part))
    if isinstance(part, list):
        if step.isdigit() and int(step) < len(part):
            return part[int(step)]
        raise UnknownNameError(Text("row"), step, [f"0..{len(part) - 1}"] if part else [])
    raise InvalidValueError(Text("There is nothing below: {part}.", part=dumps(part)))


def _keys(part: Any) -> tuple[str, ...]:
    if isinstance(part, Mapping):
        return tuple(f"{key}{_size(value)}" for key, value in part.items())
    return tuple(f"{number}{_size(value)}" for number, value in enumerate(part))


def _size(value: object) -> str:
    if isinstance(value, Mapping):
        return f" ({len(value)} parts)"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f" ({len(value)} rows)"
    return ""
