"""Figures with their names: one line each, origin, interval and how it follows behind it."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from gpuscope.document.blocks import Fact, Facts
from gpuscope.views.i18n import tr
from gpuscope.views.quantities import cell, words
from gpuscope.views.terminal.blocks.layout import titled
from gpuscope.views.words import word

_NARROW = 76
"""Below this many columns the details go under the value instead of beside it."""


def facts(block: Facts, lang: str) -> RenderableType:
    """All figures, aligned."""
    rows = _Rows(block.rows, lang)
    return titled(words(block.title, lang), rows) if block.title else rows


@dataclass(frozen=True, slots=True)
class _Rows:
    rows: tuple[Fact, ...]
    lang: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrow = options.max_width < _NARROW
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", max_width=options.max_width // 2)
        grid.add_column()
        if not narrow:
            grid.add_column(style="dim")
        for row in self.rows:
            value = Text(cell(row.value, row.unit, self.lang), style="bold")
            details = _details(row, self.lang)
            label = words(row.label, self.lang)
            if not narrow:
                grid.add_row(label, value, details)
                continue
            if details:
                value.append("\n" + details, style="not bold dim")
            grid.add_row(label, value)
        yield grid


def _details(row: Fact, lang: str) -> str:
    parts = []
    if row.low is not None and row.high is not None:
        low, high = (cell(end, row.unit, lang) for end in (row.low, row.high))
        parts.append(tr("80 %: {low} to {high}", lang, low=low, high=high))
    if row.note is not None:
        parts.append(words(row.note, lang))
    if row.origin:
        parts.append(word(row.origin, lang))
    return tr("; ", lang).join(parts)
