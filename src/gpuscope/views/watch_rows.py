"""Lines of cells in columns, drawn straight.

The live view draws some thirty lines a second for hours: a general table measures and wraps every
cell and took ten times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

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
        for line in self.lines(options.max_width):
            segments = [Segment(text, console.get_style(style or "none")) for text, style in line]
            yield from Segment.adjust_line_length(segments, options.max_width, pad=False)
            yield Segment.line()

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Take the width there is."""
        return Measurement(min(20, options.max_width), options.max_width)

    def lines(self, width: int) -> Iterator[list[Span]]:
        """Yield the spans of every line for so many columns; longer ones are not cut."""
        widths, tail = self._widths(width)
        for row in self.rows:
            spans: list[Span] = []
            for column, cell in enumerate(row.cells):
                if column:
                    spans.append((" " * self.gap, row.style))
                drawn = cell(widths[column]) if callable(cell) else _cut(cell, widths[column])
                blank = (" " * (widths[column] - _length(drawn)), row.style)
                shown = [(text, style or row.style) for text, style in drawn]
                spans += [blank, *shown] if column in self.right else [*shown, blank]
            if row.tail is not None and tail > 0:
                spans += [(" " * self.gap, ""), *row.tail(tail)]
            yield spans

    def _widths(self, width: int) -> tuple[list[int], int]:
        """Columns of each cell, and of the tail (0: none)."""
        count = max((len(row.cells) for row in self.rows), default=0)
        fixed = [
            max((_length(c) for r in self.rows if not callable(c := r.cells[n])), default=0)
            for n in range(count)
        ]
        fits = [any(callable(row.cells[n]) for row in self.rows) for n in range(count)]
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
        drawn = bar(share, width, style, "░").plain
        filled = drawn.rstrip("░")
        return (filled, style), (drawn[len(filled) :], "dim")

    return draw


def _length(cell: Cell) -> int:
    return sum(cell_len(text) for text, _ in cell)


def _cut(cell: Cell, width: int) -> Cell:
    """A cell that is no longer than its column: a heading above a short bar."""
    if _length(cell) <= width:
        return cell
    text = "".join(text for text, _ in cell)
    return ((set_cell_size(text, max(width - 1, 0)) + "…", cell[0][1]),)
