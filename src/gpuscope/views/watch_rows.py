"""Lines of cells in columns, drawn straight.

The live view draws some thirty lines a second for hours: a general table measures and wraps every
cell and took ten times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment

from gpuscope.views.terminal.layout import bar

Span = tuple[str, str]
"""A piece of text and its style."""

Cell = tuple[Span, ...]

Draw = Callable[[int], Cell]
"""Draws a cell for so many columns."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line.

    Attributes:
        cells: what stands in it, from the left; a `Draw` fits itself into its column.
        tail: takes what is left of the line; None for nothing.
        style: of the whole line.
    """

    cells: Sequence[Cell | Draw]
    tail: Draw | None = None
    style: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """Lines whose cells stand in columns.

    Attributes:
        rows: the lines, all with as many cells.
        right: columns that are aligned to the right.
        prefer: columns of a cell that fits itself, where there is room.
        least: of the same, where there is none.
        least_tail: below so many columns there is no tail.
        gap: blanks between columns.
    """

    rows: Sequence[Row]
    right: frozenset[int] = frozenset()
    prefer: int = 24
    least: int = 6
    least_tail: int = 8
    gap: int = 2

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the lines, cut to the width there is."""
        for line in self.segments(console, options.max_width):
            yield from line
            yield Segment.line()

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Take the width there is."""
        return Measurement(min(20, options.max_width), options.max_width)

    def segments(self, console: Console, width: int) -> list[list[Segment]]:
        """Return the lines as rich's segments, cut to a width."""
        return [
            Segment.adjust_line_length(
                [
                    Segment("".join([text for text, _ in run]), console.get_style(style or "none"))
                    for style, run in groupby(line, itemgetter(1))
                ],
                width,
                pad=False,
            )
            for line in self.lines(width)
        ]

    def lines(self, width: int) -> Iterator[list[Span]]:
        """Yield the spans of every line for so many columns; longer ones are not cut."""
        lengths = [
            [None if callable(cell) else _length(cell) for cell in row.cells] for row in self.rows
        ]
        widths, tail = self._widths(width, lengths)
        gap = " " * self.gap
        for row, known in zip(self.rows, lengths, strict=True):
            spans: list[Span] = []
            own = row.style
            for column, (cell, length) in enumerate(zip(row.cells, known, strict=True)):
                if column:
                    spans.append((gap, own))
                room = widths[column]
                if callable(cell):
                    cell = cell(room)
                    length = _length(cell)
                elif length is None or length > room:
                    cell, length = _cut(cell, room), room
                shown = [(text, style or own) for text, style in cell]
                blank = [(" " * (room - length), own)] if room > length else []
                spans += [*blank, *shown] if column in self.right else [*shown, *blank]
            if row.tail is not None and tail > 0:
                spans += [(gap, ""), *row.tail(tail)]
            yield spans

    def _widths(self, width: int, lengths: Sequence[Sequence[int | None]]) -> tuple[list[int], int]:
        """Columns of each cell, and of the tail (0: none)."""
        count = max(map(len, lengths), default=0)
        columns = [[row[n] for row in lengths] for n in range(count)]
        fixed = [max((each for each in column if each), default=0) for column in columns]
        fits = [None in column for column in columns]
        taken = sum(w for w, fit in zip(fixed, fits, strict=True) if not fit)
        left = width - taken - self.gap * (count - 1)
        each = min(max(left // max(sum(fits), 1), self.least), self.prefer) if any(fits) else 0
        widths = [each if fit else w for w, fit in zip(fixed, fits, strict=True)]
        tail = width - sum(widths) - self.gap * count
        if tail < self.least_tail and any(row.tail for row in self.rows) and each > self.least:
            short = min(self.least_tail - tail, each - self.least)
            widths = [w - short if fit else w for w, fit in zip(widths, fits, strict=True)]
            tail += short
        return widths, tail if tail >= self.least_tail else 0


def share_bar(share: float, style: str) -> Draw:
    """Return what draws a bar of a share (0..1)."""

    def draw(width: int) -> Cell:
        eighths = round(min(max(share, 0.0), 1.0) * width * 8)
        return _drawn_bar(max(eighths, 1) if share > 0 else 0, width, style)

    return draw


@lru_cache(1000)
def _drawn_bar(eighths: int, width: int, style: str) -> Cell:
    """A bar of so many eighths of a cell; there are few."""
    drawn = bar(eighths / (8 * max(width, 1)), width, style, "░").plain
    filled = drawn.rstrip("░")
    return (filled, style), (drawn[len(filled) :], "dim")


def _length(cell: Cell) -> int:
    columns = 0
    for text, _ in cell:
        columns += len(text) if text.isascii() else cell_len(text)
    return columns


def _cut(cell: Cell, width: int) -> Cell:
    """A cell that is no longer than its column: a heading above a short bar."""
    if _length(cell) <= width:
        return cell
    text = "".join(text for text, _ in cell)
    return ((set_cell_size(text, max(width - 1, 0)) + "…", cell[0][1]),)
