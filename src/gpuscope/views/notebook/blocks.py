"""Blocks of an explanation as HTML; charts as inline SVG where matplotlib is installed."""

from __future__ import annotations

import importlib.util

from gpuscope.document.blocks import Bars, Block, Code, Fact, Facts, Paragraph, Table
from gpuscope.views.i18n import tr
from gpuscope.views.notebook import parts
from gpuscope.views.quantities import cell, words
from gpuscope.views.words import word

_MOST_ROWS = 24
_MOST_LINES = 40


def block_html(block: Block, lang: str) -> str:
    """Return one block."""
    if isinstance(block, Paragraph):
        return parts.text(words(block.text, lang))
    if isinstance(block, Facts):
        return _facts(block, lang)
    if isinstance(block, Table):
        return _table(block, lang)
    if isinstance(block, Bars):
        note = parts.text(words(block.note, lang), quiet=True) if block.note else ""
        return parts.heading(words(block.title, lang)) + parts.bars(block, lang) + note
    if isinstance(block, Code):
        return _code(block, lang)
    return _chart(block, lang)


def _facts(block: Facts, lang: str) -> str:
    rows = [(words(row.label, lang), _value(row, lang), _told(row, lang)) for row in block.rows]
    title = parts.heading(words(block.title, lang)) if block.title else ""
    return title + parts.table(("", "", ""), rows, left=(0, 1, 2))


def _value(row: Fact, lang: str) -> str:
    text = cell(row.value, row.unit, lang)
    if row.low is None or row.high is None:
        return text
    low, high = (cell(end, row.unit, lang) for end in (row.low, row.high))
    return f"{text} ({low} – {high})"


def _told(row: Fact, lang: str) -> str:
    known = [words(row.note, lang)] if row.note is not None else []
    known += [word(row.origin, lang)] if row.origin else []
    return tr("; ", lang).join(known)


def _table(block: Table, lang: str) -> str:
    head = [words(column.label, lang) for column in block.columns]
    rows = [
        [cell(value, column.unit, lang) for value, column in zip(row, block.columns, strict=False)]
        for row in block.rows[:_MOST_ROWS]
    ]
    more = len(block.rows) - _MOST_ROWS
    rest = parts.text(tr("{n} others", lang, n=more), quiet=True) if more > 0 else ""
    note = parts.text(words(block.note, lang), quiet=True) if block.note else ""
    left = [i for i, column in enumerate(block.columns) if not column.unit]
    table = parts.table(head, rows, block.marked, left)
    return parts.heading(words(block.title, lang)) + table + rest + note


def _code(block: Code, lang: str) -> str:
    lines = "\n".join(
        f"{line.number:>4}  {line.text}" + (f"   ← {words(line.note, lang)}" if line.note else "")
        for line in block.lines[:_MOST_LINES]
    )
    return (
        parts.heading(words(block.title, lang))
        + '<pre style="overflow-x:auto;margin:4px 0;background:rgba(128,128,128,.1);'
        + f'padding:8px;border-radius:4px;color:inherit">{parts.escape(lines)}</pre>'
    )


def _chart(block: Block, lang: str) -> str:
    """An image with its alternative text; without matplotlib the title and how to see it."""
    title = words(getattr(block, "title", None), lang)
    if importlib.util.find_spec("matplotlib") is None:
        how = tr("Install gpuscope[figures] to see this chart here.", lang)
        return parts.heading(title) + parts.text(how, quiet=True)
    import base64

    from gpuscope.views.pictures import svg

    data = base64.b64encode(svg(block, lang).encode("utf-8")).decode("ascii")
    return (
        f'<img alt="{parts.escape(title)}" style="max-width:100%;background:#fff;margin:6px 0;'
        f'border-radius:4px" src="data:image/svg+xml;base64,{data}">'
    )
