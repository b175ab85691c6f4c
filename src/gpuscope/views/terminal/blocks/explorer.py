"""A live figure on paper: a table over its axis, the other sliders where they begin."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from gpuscope.document.blocks import Cell, Column, Explorer, Slider, Table
from gpuscope.document.text import Text as Said
from gpuscope.views.i18n import tr
from gpuscope.views.quantities import cell, words
from gpuscope.views.terminal.blocks.table import table

_MOST_ROWS = 12


def explorer(block: Explorer, lang: str) -> RenderableType:
    """What follows at about a dozen stops of the axis; the one where it begins is marked."""
    axis = next(s for s in block.sliders if s.key == block.x)
    stops = _stops(axis)
    rows = tuple(
        (axis.values[stop], *(o.values[index_at(block, axis.key, stop)] for o in block.outputs))
        for stop in stops
    )
    columns = (Column(axis.label, axis.unit), *(Column(o.label, o.unit) for o in block.outputs))
    shown = table(
        Table(block.title, columns, rows, marked=(stops.index(axis.start),), note=block.note), lang
    )
    parts: list[RenderableType] = [shown]
    others = [s for s in block.sliders if s.key != block.x]
    if others:
        said = tr(", ", lang).join(
            f"{words(s.label, lang)} = {cell(s.values[s.start], s.unit, lang)}" for s in others
        )
        parts.append(Text(tr("at {sliders}", lang, sliders=said), style="dim"))
    if block.reading is not None:
        parts.append(Text(reading(block, lang)))
    parts.append(
        Text(tr("Move the sliders on the page: add --report FILE.html", lang), style="dim")
    )
    return Group(*parts)


def index_at(block: Explorer, key: str, stop: int) -> int:
    """Index into an output's values with one slider at a stop and the others at their starts."""
    index = 0
    for slider in block.sliders:
        index = index * len(slider.values) + (stop if slider.key == key else slider.start)
    return index


def reading(block: Explorer, lang: str) -> str:
    """The sentence of the figure, filled in where all sliders stand at their starts."""
    values: dict[str, str] = {s.key: cell(s.values[s.start], s.unit, lang) for s in block.sliders}
    start = index_at(block, block.x, next(s.start for s in block.sliders if s.key == block.x))
    for output in block.outputs:
        value: Cell | Said = output.values[start]
        values[output.key] = cell(value, output.unit, lang)
    return words(block.reading, lang).format(**values)


def _stops(axis: Slider) -> list[int]:
    """At most a dozen stops, evenly spread, the first, the last and the start among them."""
    last = len(axis.values) - 1
    if last < _MOST_ROWS:
        return list(range(last + 1))
    spread = {round(n * last / (_MOST_ROWS - 1)) for n in range(_MOST_ROWS)}
    return sorted(spread | {axis.start})
