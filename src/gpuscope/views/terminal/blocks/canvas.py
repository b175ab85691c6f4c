"""A small plot of dots: eight to a cell, in Braille, with letters on top.

Unicode's Braille patterns begin at U+2800; a cell's dots are bits 0-2 and 6 down the left side,
3-5 and 7 down the right.
"""

from __future__ import annotations

from math import ceil

from rich.text import Text

_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLANK = 0x2800


class Canvas:
    """A grid of cells, two dots wide and four high each; dot (0, 0) is at the top left.

    Args:
        columns, rows: cells.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._dots = [[0] * columns for _ in range(rows)]
        self._styles = [[""] * columns for _ in range(rows)]
        self._glyphs: dict[tuple[int, int], tuple[str, str]] = {}

    @property
    def width(self) -> int:
        """Dots from left to right."""
        return 2 * self.columns

    @property
    def height(self) -> int:
        """Dots from top to bottom."""
        return 4 * self.rows

    def dot(self, x: int, y: int, style: str = "") -> None:
        """Set one dot; outside of the canvas nothing happens."""
        if 0 <= x < self.width and 0 <= y < self.height:
            self._dots[y // 4][x // 2] |= _BITS[y % 4][x % 2]
            self._styles[y // 4][x // 2] = style

    def line(self, x0: float, y0: float, x1: float, y1: float, style: str = "") -> None:
        """Set the dots between two points."""
        steps = max(1, 2 * ceil(max(abs(x1 - x0), abs(y1 - y0))))
        for n in range(steps + 1):
            share = n / steps
            self.dot(round(x0 + (x1 - x0) * share), round(y0 + (y1 - y0) * share), style)

    def glyph(
        self, x: float, y: float, glyph: str, style: str = "", *, under: bool = False
    ) -> None:
        """Put a narrow character over the cell of a dot.

        Args:
            x, y: the dot.
            glyph: one character of one cell.
            style: its colour.
            under: only where nothing is drawn yet.
        """
        column, row = int(x) // 2, int(y) // 4
        if not (0 <= column < self.columns and 0 <= row < self.rows):
            return
        if under and (self._dots[row][column] or (column, row) in self._glyphs):
            return
        self._glyphs[column, row] = glyph, style

    def free(self, x: float, y: float) -> bool:
        """Whether no character stands in the cell of a dot."""
        return (int(x) // 2, int(y) // 4) not in self._glyphs

    def line_of(self, row: int) -> Text:
        """One row of cells."""
        text = Text()
        for column in range(self.columns):
            glyph, style = self._glyphs.get((column, row), ("", ""))
            if not glyph:
                dots = self._dots[row][column]
                glyph, style = (chr(_BLANK + dots) if dots else " "), self._styles[row][column]
            text.append(glyph, style=style)
        return text
