"""Facts that no model computes and the catalogue does not hold, each with its document.

Only what a maker or a standard states: numbers of transistors, widths of buses, sizes of caches of
processors. They stand in `facts.toml`, in SI units.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from gpuscope.document.text import Text, extracted
from gpuscope.errors import UnknownNameError
from gpuscope.learn.claims.scales import in_unit
from gpuscope.learn.claims.types import Figure, figure

FILE = Path(__file__).with_name("facts.toml")


class Fact(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One figure: its value in SI units, what it is, its document, the unit to show it in."""

    value: float
    about: str
    source: str
    unit: str = ""


class Terms(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a document calls something: all its terms, how to say it, the document."""

    names: list[str]
    about: str
    source: str


class Facts(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What `facts.toml` holds, by stable names."""

    facts: dict[str, Fact]
    terms: dict[str, Terms]


@cache
def stated() -> Facts:
    """Read `facts.toml`."""
    return msgspec.toml.decode(FILE.read_bytes(), type=Facts)


@figure
def fact(name: str) -> Figure:
    """A stated fact.

    Raises:
        UnknownNameError: no such fact.
    """
    facts = stated().facts
    if name not in facts:
        raise UnknownNameError("fact", name, facts)
    found = facts[name]
    about = extracted(found.about)
    how = Text("{about}: {shown}", about=about, shown=in_unit(found.value, found.unit))
    return Figure(found.value, how, about, "catalogue", (found.source,))


def terms(name: str) -> Terms:
    """A stated term.

    Raises:
        UnknownNameError: no such term.
    """
    known = stated().terms
    if name not in known:
        raise UnknownNameError("term", name, known)
    return known[name]
