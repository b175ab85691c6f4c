"""An explanation as plain data: the JSON documents `gpuscope.explanation` and `gpuscope.book`."""

from __future__ import annotations

from typing import Any

from gpuscope import __version__
from gpuscope.document.blocks import Block, Book, Explanation, Section
from gpuscope.document.plain import plain
from gpuscope.document.translations import spoken

EXPLANATION_VERSION = 1

Json = dict[str, Any]


def explanation_document(explanation: Explanation) -> Json:
    """Return an explanation as plain values.

    Each block is an object whose `block` names its sort ("facts", "table", "lines", ...); all other
    fields are those of its class in `gpuscope.explanation.types`. A text in two languages is
    `{"en": ..., "zh": ...}`.
    """
    return {
        "schema": "gpuscope.explanation",
        "version": EXPLANATION_VERSION,
        "gpuscope_version": __version__,
        **_explanation(explanation),
    }


def book_document(book: Book) -> Json:
    """Return several explanations that make one page."""
    return {
        "schema": "gpuscope.book",
        "version": EXPLANATION_VERSION,
        "gpuscope_version": __version__,
        "title": spoken(plain(book.title)),
        "about": spoken(plain(book.about)),
        "chapters": [_explanation(chapter) for chapter in book.chapters],
    }


def block_document(block: Block) -> Json:
    """Return one block as plain values, with its sort under `block`."""
    return {"block": type(block).__name__.lower(), **spoken(plain(block))}


def _explanation(explanation: Explanation) -> Json:
    values: Json = spoken(plain(explanation))
    values["sections"] = [_section(section) for section in explanation.sections]
    return values


def _section(section: Section) -> Json:
    return {
        "title": spoken(plain(section.title)),
        "blocks": [block_document(block) for block in section.blocks],
    }
