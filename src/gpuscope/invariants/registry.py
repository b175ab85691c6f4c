"""Families of invariants by name, and `check`, which goes through them."""

from __future__ import annotations

from collections.abc import Callable

from gpuscope.document.text import Text
from gpuscope.invariants.book import Book, Checked
from gpuscope.invariants.output import Output
from gpuscope.registry import Registry

Invariant = Callable[[Output, Book], None]
"""Compares figures of what is shown of a run, each comparison entered in the book."""

INVARIANTS = Registry[Invariant](Text("invariant"), "gpuscope.invariants.families")


def invariant(name: str) -> Callable[[Invariant], Invariant]:
    """Register a family of invariants under its name."""

    def register(function: Invariant) -> Invariant:
        return INVARIANTS.add(name, function)

    return register


def check(output: Output) -> Checked:
    """Hold everything that is shown of a run against itself and against its device."""
    book = Book()
    for name in INVARIANTS.names():
        book.rule = name
        INVARIANTS.get(name)(output, book)
    return Checked(book.count, tuple(book.violations))
