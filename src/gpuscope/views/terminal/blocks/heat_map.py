"""Rows of shaded cells; a map with more cells than there is room for is joined, and says so."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from gpuscope.document.blocks import HeatMap
from gpuscope.views.i18n import tr
from gpuscope.views.palette import COLOURS
from gpuscope.views.quantities import axis_label, cell, words
from gpuscope.views.terminal.blocks.layout import clip, titled
from gpuscope.views.terminal.blocks.roles import series_style

_SHADES = "░▒▓█"
_CLASSES = "█▒░▚▓╳╱○●+"
_MOST_ROWS = 32
_COLOURS = ("color(24)", "color(31)", "color(74)", "color(117)")

Grid = list[list[float | None]]


def heat_map(block: HeatMap, lang: str) -> RenderableType:
    """The map with its axes and what its shades or glyphs stand for."""
    return titled(words(block.title, lang), _Map(block, lang), note=block.note, lang=lang)


def _joined(cells: Sequence[float | None], classes: bool) -> float | None:
    """One value for several: the mean of amounts, the commonest of sorts."""
    there = [c for c in cells if c is not None]
    if not there:
        return None
    if classes:
        return Counter(there).most_common(1)[0][0]
    return sum(there) / len(there)


def fold(values: Sequence[Sequence[float | None]], across: int, down: int, classes: bool) -> Grid:
    """Join `across` columns and `down` rows into one cell."""
    wide = max((len(row) for row in values), default=0)
    return [
        [
            _joined([c for row in values[y : y + down] for c in row[x : x + across]], classes)
            for x in range(0, wide, across)
        ]
        for y in range(0, len(values), down)
    ]


@dataclass(frozen=True, slots=True)
class _Map:
    block: HeatMap
    lang: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        block = self.block
        wide = max((len(row) for row in block.values), default=0)
        if not wide:
            yield Text(cell(None, "", self.lang), style="dim")
            return
        names = block.y_labels or tuple(str(n) for n in range(len(block.values)))
        aside = min(max(map(cell_len, names)), options.max_width // 3)
        room = options.max_width - aside - 2
        across = math.ceil(wide / room)
        down = math.ceil(len(block.values) / _MOST_ROWS)
        grid = fold(block.values, across, down, bool(block.classes))
        each = 2 if 2 * len(grid[0]) <= room else 1
        each = 3 if 3 * len(grid[0]) <= min(room, 48) else each
        yield Text(
            f"↓ {axis_label(block.y, self.lang)}   → {axis_label(block.x, self.lang)}", style="dim"
        )
        low, high = self._ends(grid)
        for number, row in enumerate(grid):
            name = clip(names[number * down], aside)
            line = Text(" " * (aside - cell_len(name)) + name + "  ", style="dim")
            for value in row:
                glyph, style = self._cell(value, low, high)
                line.append(glyph * each, style=style)
            line.rstrip()
            yield line
        yield self._columns(wide, across, each, aside)
        said = self._said(across, down)
        if said:
            yield Text(said, style="dim")
        yield Columns([*self._legend(low, high)], padding=(0, 3, 0, 0))

    def _ends(self, grid: Grid) -> tuple[float, float]:
        there = [c for row in grid for c in row if c is not None and math.isfinite(c)]
        return (min(there), max(there)) if there else (0.0, 0.0)

    def _cell(self, value: float | None, low: float, high: float) -> tuple[str, str]:
        if value is None or not math.isfinite(value):
            return "·", "bright_black"
        if self.block.classes:
            at = round(value)
            return _CLASSES[at % len(_CLASSES)], self._class_style(at)
        level = _level(value, low, high)
        return _SHADES[level], _COLOURS[level]

    def _class_style(self, at: int) -> str:
        roles = self.block.roles
        return COLOURS[roles[at]] if at < len(roles) else series_style("other", at)

    def _columns(self, wide: int, across: int, each: int, aside: int) -> Text:
        """First and last column under the map, and some between where they fit."""
        names = self.block.x_labels or tuple(str(n) for n in range(wide))
        shown = [" "] * (aside + 2 + each * math.ceil(wide / across) + 12)
        taken = 0
        for at in range(math.ceil(wide / across)):
            name, begin = names[at * across], aside + 2 + at * each
            if begin < taken:
                continue
            shown[begin : begin + cell_len(name)] = [name] + [""] * (cell_len(name) - 1)
            taken = begin + max(cell_len(name) + 2, 8 if not self.block.x_labels else 0)
        return Text("".join(shown).rstrip(), style="dim", overflow="ellipsis", no_wrap=True)

    def _said(self, across: int, down: int) -> str:
        if across > 1 and down > 1:
            return tr(
                "each column stands for {columns}, each row for {rows}",
                self.lang,
                columns=across,
                rows=down,
            )
        if across > 1:
            return tr("each column stands for {n}", self.lang, n=across)
        return tr("each row stands for {n}", self.lang, n=down) if down > 1 else ""

    def _legend(self, low: float, high: float) -> Iterator[Text]:
        block, lang = self.block, self.lang
        there = {c for row in block.values for c in row}
        if block.classes:
            for at, name in enumerate(block.classes):
                if float(at) in {float(c) for c in there if c is not None}:
                    entry = Text(_CLASSES[at % len(_CLASSES)] * 2, style=self._class_style(at))
                    yield entry.append(" " + words(name, lang), style="default")
        else:
            levels = range(len(_SHADES)) if high > low else [len(_SHADES) - 1]
            for level in levels:
                top = low + (high - low) * (level + 1) / len(_SHADES)
                entry = Text(_SHADES[level] * 2, style=_COLOURS[level])
                said = tr("up to {value}", lang, value=cell(top, block.unit, lang))
                yield entry.append(" " + said, style="default")
        if None in there:
            yield Text.assemble(("·", "bright_black"), " " + tr("empty", lang))


def _level(value: float, low: float, high: float) -> int:
    if high <= low:
        return len(_SHADES) - 1
    return min(len(_SHADES) - 1, int((value - low) / (high - low) * len(_SHADES)))
