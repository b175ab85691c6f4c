"""Tables that fit any width without cutting a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

LEAST_WORDS = 14
"""Cells that a column of words may be squeezed to; what is shorter stays whole."""

ENOUGH_WORDS = 24
"""Cells that words get before headings of figures get a line of their own."""

MOST_LINES = 4
"""Lines that a name may take in a narrow table; longer ones are cut."""


class FiguresColumn(Column):
    """A column of figures: its heading may break over lines, its cells never do."""


class BarsColumn(Column):
    """A column of bars: they repeat what the figures say, so they are the first to be dropped."""


@dataclass(frozen=True, slots=True)
class _Size:
    """Cells that a column needs at least and would like, with its heading's least."""

    least: int
    natural: int


class FittingTable(Table):
    """A table that gives way in a stated order where it is wider than the terminal.

    Bars get shorter and words break over lines; then headings break; then bars are dropped; then
    the columns that do not fit continue below, under the first column again. Figures are whole at
    every width.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it in the room there is."""
        sizes = [self._size(console, options, column) for column in self.columns]
        room = options.max_width
        easy = [
            # A column with a ratio would be cut instead of broken.
            size.natural if isinstance(column, FiguresColumn) or column.ratio else size.least
            for column, size in zip(self.columns, sizes, strict=True)
        ]
        if self._wide(easy) <= room:
            yield from super().__rich_console__(console, options)
            return
        for number, group in enumerate(self._groups(sizes, room)):
            if number:
                yield Text()
            yield self._part(group, self._widths(group, sizes, room), sizes)

    @property
    def _gap(self) -> int:
        return self.padding[1] + self.padding[3]

    def _wide(self, widths: Sequence[int]) -> int:
        return sum(widths) + self._gap * len(widths)

    def _size(self, console: Console, options: ConsoleOptions, column: Column) -> _Size:
        """What a column's cells and heading need."""
        if column.width is not None:
            return _Size(column.width, column.width)
        heading = column.header if isinstance(column.header, str) else str(column.header)
        heading = heading if self.show_header else ""
        wide = options.update(width=10_000)
        cells = [Measurement.get(console, wide, cell) for cell in column.cells]
        natural = max([cell_len(heading), *(m.maximum for m in cells)], default=1)
        if isinstance(column, BarsColumn):
            return _Size(max([_least_heading(heading), *(m.minimum for m in cells)]), natural)
        if isinstance(column, FiguresColumn):
            least = max([_least_heading(heading), *(m.maximum for m in cells)])
            return _Size(least, natural)
        return _Size(min(natural, max(LEAST_WORDS, column.min_width or 0)), natural)

    def _groups(self, sizes: Sequence[_Size], room: int) -> list[list[int]]:
        """The columns of each part: all, all but bars, or as many as fit beside the first."""
        every = list(range(len(self.columns)))
        if self._wide([sizes[at].least for at in every]) <= room:
            return [every]
        kept = [at for at in every if not isinstance(self.columns[at], BarsColumn)] or every
        groups: list[list[int]] = [[kept[0]]]
        for at in kept[1:]:
            full = self._wide([sizes[i].least for i in (*groups[-1], at)]) > room
            if full and len(groups[-1]) > 1:  # one beside the first even where that is too wide
                groups.append([kept[0]])
            groups[-1].append(at)
        return groups

    def _widths(self, group: Sequence[int], sizes: Sequence[_Size], room: int) -> list[int]:
        """Share the room: the least to all, then to words, figures' headings, words, bars."""
        widths = {at: sizes[at].least for at in group}
        spare = room - self._wide(list(widths.values()))
        for at, most in self._wishes(group, sizes):
            more = max(0, min(spare, most - widths[at]))
            widths[at] += more
            spare -= more
        taking = [at for at in group if self.columns[at].ratio]
        if self.expand and taking:
            widths[taking[0]] += max(0, spare)
        return [widths[at] for at in group]

    def _wishes(self, group: Sequence[int], sizes: Sequence[_Size]) -> Iterator[tuple[int, int]]:
        """Columns and the width they would like, in the order in which they are heard."""
        bars = [at for at in group if isinstance(self.columns[at], BarsColumn)]
        figures = [at for at in group if isinstance(self.columns[at], FiguresColumn)]
        words = [at for at in group if at not in bars and at not in figures]
        yield from ((at, min(sizes[at].natural, ENOUGH_WORDS)) for at in words)
        yield from ((at, sizes[at].natural) for at in (*figures, *words, *bars))

    def _part(self, group: Sequence[int], widths: Sequence[int], sizes: Sequence[_Size]) -> Table:
        made = Table(
            box=self.box,
            pad_edge=self.pad_edge,
            padding=self.padding,
            header_style=self.header_style,
            show_header=self.show_header,
        )
        for number, (at, width) in enumerate(zip(group, widths, strict=True)):
            column = copy(self.columns[at])
            column._index, column.width, column.ratio = number, width, None
            dropped = self.columns[at - 1] if at and at - 1 not in group else None
            if isinstance(dropped, BarsColumn) and not column.header:
                column.header = dropped.header  # it named the bar and its figure
            words = not isinstance(column, FiguresColumn | BarsColumn)
            if not words or sizes[at].natural <= MOST_LINES * width:
                column.no_wrap, column.overflow = False, "fold"
            made.columns.append(column)
        made.rows = self.rows
        return made


def _least_heading(heading: str) -> int:
    """Cells of the longest word of a heading; one without blanks may break anywhere."""
    wide = cell_len(heading)
    if wide > len(heading):  # Chinese
        return min(wide, 4)
    return max(map(cell_len, heading.split()), default=0)
