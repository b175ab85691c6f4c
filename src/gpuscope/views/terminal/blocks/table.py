"""Rows of cells; a table that is too wide is folded into several, the first column in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Column as RichColumn
from rich.table import Table as RichTable
from rich.text import Text

from gpuscope.document.blocks import Cell, Column, Table
from gpuscope.views.quantities import cell, words
from gpuscope.views.terminal.blocks.layout import titled

_GAP = 2
_LEAST_TEXT = 14
"""A column of words may be squeezed to so many cells before the table is folded."""


def table(block: Table, lang: str) -> RenderableType:
    """The table; rows that stand out are bold and have a sign in front."""
    rows = _Rows(block.columns, block.rows, frozenset(block.marked), lang)
    return titled(words(block.title, lang), rows, note=block.note, lang=lang)


@dataclass(frozen=True, slots=True)
class _Rows:
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marked: frozenset[int]
    lang: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        texts = [
            [
                cell(value, column.unit, self.lang)
                for value, column in zip(row, self.columns, strict=True)
            ]
            for row in self.rows
        ]
        for number, group in enumerate(self._fold(texts, options.max_width)):
            if number:
                yield Text()
            yield self._one(texts, group)

    def _numeric(self, at: int) -> bool:
        values = [row[at] for row in self.rows if row[at] is not None]
        return bool(values) and all(isinstance(v, int | float) for v in values)

    def _fold(self, texts: Sequence[Sequence[str]], room: int) -> list[list[int]]:
        """Groups of columns that fit beside the first."""
        least = []
        for at, column in enumerate(self.columns):
            heading = words(column.label, self.lang)
            widest = max((cell_len(row[at]) for row in texts), default=0)
            head = max((cell_len(word) for word in heading.split()), default=0)
            if not self._numeric(at):
                widest, head = min(widest, _LEAST_TEXT), min(head, _LEAST_TEXT)
            least.append(max(widest, head) + _GAP)
        first = least[0] + (2 if self.marked else 0)
        groups: list[list[int]] = []
        used = room + 1
        for at in range(1, len(least)):
            if used + least[at] > room + _GAP:
                groups.append([0])
                used = first
            groups[-1].append(at)
            used += least[at]
        return groups or [[0]]

    def _one(self, texts: Sequence[Sequence[str]], group: Sequence[int]) -> RichTable:
        headings = [
            RichColumn(
                words(self.columns[at].label, self.lang),
                overflow="fold",
                justify="right" if self._numeric(at) else "left",
            )
            for at in group
        ]
        for heading, at in zip(headings, group, strict=True):
            if self._numeric(at):
                heading.min_width = max((cell_len(row[at]) for row in texts), default=1)
        sign = [RichColumn("", width=1)] if self.marked else []
        made = RichTable(
            *sign, *headings, box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim"
        )
        if sign:
            made.columns[0].no_wrap = True
        for number, row in enumerate(texts):
            stands_out = number in self.marked
            shown = [Text(row[at]) for at in group]
            mark = [Text("▶" if stands_out else "", style="green")] if sign else []
            made.add_row(*mark, *shown, style="bold" if stands_out else "")
        return made
