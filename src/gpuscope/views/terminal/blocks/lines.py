"""Curves as a Braille plot, with letters on the curves and figures on the marks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from gpuscope.document.blocks import Axis, Lines, Mark, Series
from gpuscope.views.palette import COLOURS
from gpuscope.views.quantities import axis_label, cell, tick, ticks, words
from gpuscope.views.terminal.blocks.canvas import Canvas
from gpuscope.views.terminal.blocks.layout import titled
from gpuscope.views.terminal.blocks.roles import series_style

_ROWS = 14
_MOST_COLUMNS = 76
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NUMBERS = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def lines(block: Lines, lang: str) -> RenderableType:
    """The plot with its axes, then what its letters and figures stand for."""
    return titled(words(block.title, lang), _Plot(block, lang), note=block.note, lang=lang)


@dataclass(frozen=True, slots=True)
class _Scale:
    """One axis: from values to dots."""

    axis: Axis
    low: float
    high: float

    def share(self, value: float) -> float | None:
        """Where a value lies, 0 to 1; None outside of the axis."""
        if not math.isfinite(value) or (self.axis.log and value <= 0):
            return None
        low, high = self.low, self.high
        if self.axis.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        place = (value - low) / (high - low)
        return place if -1e-9 <= place <= 1 + 1e-9 else None


def _scale(axis: Axis, values: Sequence[float], *, from_zero: bool) -> _Scale | None:
    shown = [v for v in values if math.isfinite(v) and (v > 0 or not axis.log)]
    if not shown:
        return None
    low, high = min(shown), max(shown)
    if not axis.log and from_zero and low > 0:
        # A curve that hardly moves is shown as such; one far from zero keeps its detail.
        low = 0.0 if low < 0.7 * high else low
    if low == high and axis.log:
        low, high = low / 2, high * 2
    elif low == high:
        low, high = low - abs(low) / 2 - 0.5, high + abs(high) / 2 + 0.5
    return _Scale(axis, low, high)


def _values(block: Lines, which: str) -> list[float]:
    found: list[float] = []
    for series in block.series:
        found += [v for v in getattr(series, which) if v is not None]
        if which == "y":
            found += [*series.low, *series.high]
    return found + [v for m in block.marks if (v := getattr(m, which)) is not None]


@dataclass(frozen=True, slots=True)
class _Plot:
    block: Lines
    lang: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        across = _scale(self.block.x, _values(self.block, "x"), from_zero=False)
        up = _scale(self.block.y, _values(self.block, "y"), from_zero=True)
        if across is None or up is None:
            yield Text(cell(None, "", self.lang), style="dim")
            return
        labels = [
            (1 - (up.share(v) or 0.0), tick(v, self.block.y.unit, self.lang))
            for v in ticks(up.low, up.high, 5, unit=self.block.y.unit, log=self.block.y.log)
        ]
        aside = max((cell_len(text) for _, text in labels), default=0)
        canvas = Canvas(max(12, min(_MOST_COLUMNS, options.max_width - aside - 3)), _ROWS)
        self._draw(canvas, across, up)
        yield Text(axis_label(self.block.y, self.lang), style="dim")
        at_row = {min(_ROWS - 1, int(share * _ROWS)): text for share, text in labels}
        for row in range(_ROWS):
            text = at_row.get(row, "")
            line = Text(" " * (aside - cell_len(text)) + text, style="dim")
            line.append(" ┤" if text else " │", style="dim")
            line.append_text(canvas.line_of(row))
            line.rstrip()
            yield line
        yield from self._bottom(across, canvas.columns, aside)
        yield from self._names()

    def _draw(self, canvas: Canvas, across: _Scale, up: _Scale) -> None:
        for number, series in enumerate(self.block.series):
            style = series_style(series.role, number)
            points = _places(canvas, series.x, series.y, across, up)
            _curve(canvas, points, series, style)
            for edge in (series.low, series.high):
                for n, place in enumerate(_places(canvas, series.x, edge, across, up)):
                    if place is not None and n % 2 == 0:
                        canvas.dot(round(place[0]), round(place[1]), "bright_black")
        for mark in self.block.marks:
            _mark_lines(canvas, mark, across, up)
        if len(self.block.series) > 1:
            for number, series in enumerate(self.block.series):
                style = series_style(series.role, number)
                points = _places(canvas, series.x, series.y, across, up)
                _letters(canvas, points, number, len(self.block.series), style)
        for number, mark in enumerate(self.block.marks):
            _mark_number(canvas, mark, number, across, up)

    def _bottom(self, across: _Scale, columns: int, aside: int) -> Iterator[Text]:
        """The x axis, its figures and its name."""
        base = [*"─" * columns]
        figures = [" "] * (columns + aside + 2)
        taken = 0
        axis = self.block.x
        for value in ticks(
            across.low, across.high, max(2, columns // 12), unit=axis.unit, log=axis.log
        ):
            place = across.share(value)
            if place is None:
                continue
            at = min(columns - 1, int(place * columns))
            text = tick(value, axis.unit, self.lang)
            begin = max(taken, aside + 2 + at - cell_len(text) // 2)
            begin = min(begin, len(figures) - cell_len(text))
            if begin < taken:
                continue
            base[at] = "┬"
            figures[begin : begin + len(text)] = text
            taken = begin + cell_len(text) + 1
        yield Text(" " * (aside + 1) + "└" + "".join(base), style="dim")
        yield Text("".join(figures).rstrip(), style="dim")
        name = axis_label(axis, self.lang)
        yield Text(" " * max(0, aside + 2 + (columns - cell_len(name)) // 2) + name, style="dim")

    def _names(self) -> Iterator[Text]:
        block, lang = self.block, self.lang
        for number, series in enumerate(block.series):
            letter = _LETTERS[number % 26] if len(block.series) > 1 else "─"
            line = Text(f"  {letter} ", style=f"bold {series_style(series.role, number)}")
            yield line.append(words(series.label, lang), style="not bold default")
        for number, mark in enumerate(block.marks):
            at = [
                cell(value, axis.unit, lang)
                for value, axis in ((mark.x, block.x), (mark.y, block.y))
                if value is not None
            ]
            line = Text(f"  {_NUMBERS[number % 35]} ", style=f"bold {COLOURS[mark.role]}")
            line.append(words(mark.label, lang), style="not bold default")
            yield line.append(f"  {', '.join(at)}", style="not bold dim")


_Place = tuple[float, float] | None


def _places(
    canvas: Canvas, xs: Sequence[float], ys: Sequence[float | None], across: _Scale, up: _Scale
) -> list[_Place]:
    """Points as dots of the canvas; None where there is none."""
    found: list[_Place] = []
    for x, y in zip(xs, ys, strict=False):
        right = across.share(x)
        height = None if y is None else up.share(y)
        if right is None or height is None:
            found.append(None)
            continue
        found.append((right * (canvas.width - 1), (1 - height) * (canvas.height - 1)))
    return found


def _curve(canvas: Canvas, points: Sequence[_Place], series: Series, style: str) -> None:
    if series.shape == "points":
        for place in points:
            if place is not None:
                canvas.glyph(*place, "•", style)
        return
    before: _Place = None
    for place in points:
        if place is not None:
            if before is None:
                canvas.dot(round(place[0]), round(place[1]), style)
            elif series.shape == "steps":
                canvas.line(*before, place[0], before[1], style)
                canvas.line(place[0], before[1], *place, style)
            else:
                canvas.line(*before, *place, style)
        before = place


def _letters(canvas: Canvas, points: Sequence[_Place], number: int, of: int, style: str) -> None:
    """Its letter at three places of a curve, each curve's at others."""
    there = [p for p in points if p is not None]
    if not there:
        return
    for third in range(3):
        share = (third + (number + 0.5) / of) / 3
        first = min(len(there) - 1, int(share * len(there)))
        for place in (*there[first:], *reversed(there[:first])):
            if canvas.free(*place) or canvas.free(place[0], place[1] - 4):
                canvas.glyph(*place, _LETTERS[number % 26], f"bold {style}")
                break


def _mark_lines(canvas: Canvas, mark: Mark, across: _Scale, up: _Scale) -> None:
    x = None if mark.x is None else across.share(mark.x)
    y = None if mark.y is None else up.share(mark.y)
    if x is not None and mark.y is None:
        for row in range(canvas.rows):
            canvas.glyph(x * (canvas.width - 1), 4 * row, "┊", "bright_black", under=True)
    elif y is not None and mark.x is None:
        for column in range(canvas.columns):
            place = 2 * column, (1 - y) * (canvas.height - 1)
            canvas.glyph(*place, "┈", "bright_black", under=True)


def _mark_number(canvas: Canvas, mark: Mark, number: int, across: _Scale, up: _Scale) -> None:
    x = 1.0 if mark.x is None else across.share(mark.x)
    y = 1.0 if mark.y is None else up.share(mark.y)
    if x is None or y is None:
        return
    style = f"bold {COLOURS[mark.role]}"
    canvas.glyph(
        x * (canvas.width - 1), (1 - y) * (canvas.height - 1), _NUMBERS[number % 35], style
    )
