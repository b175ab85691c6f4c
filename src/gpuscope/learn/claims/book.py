"""The claims of one topic, read from its table (`topics/*.toml`, docs/claims.md).

A figure in a table is a number; a call of a function that is registered as one
(`catalogue("h200", "l2_bytes")`) or of one of the table's own `figures`; a formula; or a table with
a formula or call (`of`), what the formula's names stand for (`given`), its unit, its documents and
a name that tells it from others (`label` where languages translate it, else `name`).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from string import Template
from typing import Any

import msgspec

from gpuscope.document.text import extracted, verbatim
from gpuscope.learn.claims import catalogue_figures, model_figures, software_figures, sourced_facts
from gpuscope.learn.claims.expression import formula, plain
from gpuscope.learn.claims.judging import COMPARISONS, called, cannot_say, compared, holds
from gpuscope.learn.claims.scales import SCALES, Sentence
from gpuscope.learn.claims.types import FIGURES, Check, Claim, Figure, Judgement, Source, Topic

MODULES = (catalogue_figures, model_figures, software_figures, sourced_facts)
"""Their functions register themselves as figures."""


class FigureTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A figure that takes more than a number or a call; see the module."""

    of: str
    unit: str = ""
    label: str = ""
    name: str = ""
    sources: tuple[str, ...] = ()
    given: dict[str, FigureTable | str | float] = {}


class OwnFigure(FigureTable, frozen=True):
    """A figure that several claims name; `$names` in it stand for its arguments."""

    arguments: tuple[str, ...] = ()


FigureEntry = FigureTable | str | float


class ClaimEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A claim and how it is judged: one of the lists of figures, conditions, terms, or why not."""

    id: str
    text: str
    claimed: float | str | tuple[float, ...]
    unit: str = ""
    equals: list[FigureEntry] = []
    at_least: list[FigureEntry] = []
    at_most: list[FigureEntry] = []
    inside: list[FigureEntry] = []
    spans: list[FigureEntry] = []
    holds: list[str] = []
    called: list[str] = []
    cannot_say: str = ""
    truth: str = ""
    shown: dict[str, str] = {}
    given: dict[str, FigureEntry] = {}
    by: str = ""
    some: Judgement = "imprecise"
    sources: tuple[str, ...] = ()


class TopicFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What one file of `topics/` holds."""

    key: str
    title: str
    claims: list[ClaimEntry]
    figures: dict[str, OwnFigure] = {}


def claims_of(toml: str | bytes) -> tuple[Claim, ...]:
    """Read the claims of one topic's table.

    Raises:
        msgspec.ValidationError: the table is not of the form above.
        ValueError: a claim is judged in no way or in several, or names a figure or unit that does
            not exist.
    """
    table = msgspec.toml.decode(toml, type=TopicFile)
    topic = Topic(table.key, extracted(table.title))
    sources = Sources(table.figures)
    return tuple(_claim(entry, topic, sources) for entry in table.claims)


def _claim(entry: ClaimEntry, topic: Topic, sources: Sources) -> Claim:
    if entry.unit not in SCALES:
        raise ValueError(f"claim {entry.id}: no unit {entry.unit!r}")
    text = extracted(entry.text)
    return Claim(entry.id, topic, text, entry.claimed, entry.unit, _check(entry, sources))


def _check(entry: ClaimEntry, sources: Sources) -> Check:
    ways = [way for way in (*COMPARISONS, "holds", "called", "cannot_say") if getattr(entry, way)]
    if len(ways) != 1:
        raise ValueError(f"claim {entry.id}: judged by {', '.join(ways) or 'nothing'}")
    names = sources.of_all(entry.given)
    truth = Sentence(entry.truth, entry.shown) if entry.truth else None
    match ways[0]:
        case "holds" if truth:
            return holds(entry.holds, names, truth, entry.some, entry.sources)
        case "called":
            return called(entry.called, entry.by)
        case "cannot_say":
            return cannot_say(Sentence(entry.cannot_say, entry.shown), names)
        case way if way in COMPARISONS:
            return compared(way, [sources.of(each) for each in getattr(entry, way)], truth, names)
    raise ValueError(f"claim {entry.id}: says nothing of what is true")


class Sources:
    """What computes the figures of one table.

    Args:
        own: its own figures.
    """

    def __init__(self, own: Mapping[str, OwnFigure]) -> None:
        self._own = own

    def of_all(self, entries: Mapping[str, FigureEntry]) -> dict[str, Source]:
        """What computes several figures, by name."""
        return {name: self.of(entry) for name, entry in entries.items()}

    def of(self, entry: FigureEntry) -> Source:
        """What computes a figure.

        Raises:
            ValueError: no such function, or the wrong number of arguments for an own figure.
        """
        if isinstance(entry, int | float):
            return partial(plain, float(entry))
        table = FigureTable(entry) if isinstance(entry, str) else entry
        source = self._called(table.of)
        if source is None:
            names = self.of_all(table.given)
            source = partial(formula, table.of, names, table.unit, table.sources)
        return _named(source, table) if table.label or table.name else source

    def _called(self, text: str) -> Source | None:
        """What a call computes; None of a formula."""
        match ast.parse(text, mode="eval").body:
            case ast.Name(id=name) if name in self._own:
                return self._filled(name, ())
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if (
                name in self._own or name in FIGURES
            ):
                values = [ast.literal_eval(each) for each in args]
                named = {each.arg: ast.literal_eval(each.value) for each in keywords if each.arg}
                if name in self._own:
                    return self._filled(name, values)
                return partial(FIGURES[name], *values, **named)
        return None

    def _filled(self, name: str, values: Sequence[object]) -> Source:
        """An own figure with its arguments in place."""
        own = self._own[name]
        given = dict(zip(own.arguments, values, strict=True))
        filled = _substituted(msgspec.to_builtins(own), given)
        return self.of(msgspec.convert(filled, OwnFigure))


def _substituted(value: Any, given: Mapping[str, object]) -> Any:
    """Plain data with the `$names` of its strings filled in; one that is all of a string keeps
    its type."""
    if isinstance(value, dict):
        return {key: _substituted(each, given) for key, each in value.items()}
    if isinstance(value, str):
        whole = value.removeprefix("$")
        return given[whole] if value != whole and whole in given else _text(value, given)
    return value


def _text(value: str, given: Mapping[str, object]) -> str:
    return Template(value).substitute(given)


def _named(source: Source, table: FigureTable) -> Source:
    label = extracted(table.label) if table.label else verbatim(table.name)

    def compute() -> Figure:
        return replace(source(), label=label)

    return compute
