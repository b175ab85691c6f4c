"""Cells by row and column: amounts in shades of one colour, or sorts in colours of their own."""

from __future__ import annotations

import math
from typing import Any

from gpuscope.document.blocks import Axis, HeatMap, Role
from gpuscope.document.text import verbatim
from gpuscope.views.pictures.axes import dress
from gpuscope.views.pictures.frame import legend, patch, sheet
from gpuscope.views.pictures.style import INK, colours
from gpuscope.views.quantities import cell, words

_MOST_WRITTEN = 150
"""Cells up to which each bears its value."""

_MOST_LINED = 4000
"""Cells up to which they are set apart by white lines."""

_MOST_LABELS = 24


def draw(block: HeatMap, lang: str) -> Any:
    """Return the figure."""
    import numpy as np

    rows = len(block.values)
    width = max((len(row) for row in block.values), default=0)
    figure = sheet(block.title, block.note, 0.8 + min(5.0, max(0.6, rows * 0.2)), lang)
    axes = figure.add_subplot()
    cells = np.full((max(rows, 1), max(width, 1)), math.nan)
    for y, row in enumerate(block.values):
        cells[y, : len(row)] = [math.nan if value is None else value for value in row]
    if block.classes:
        _sorts(figure, axes, block, cells, lang)
    else:
        _amounts(figure, axes, block, cells, lang)
    axes.tick_params(which="both", length=0)
    axes.grid(visible=False, which="major")
    axes.spines[:].set_visible(False)
    _labels(axes.xaxis, block.x, block.x_labels, cells.shape[1], lang)
    _labels(axes.yaxis, block.y, block.y_labels, cells.shape[0], lang)
    if cells.size <= _MOST_LINED:
        axes.set_xticks(np.arange(1, cells.shape[1]) - 0.5, minor=True)
        axes.set_yticks(np.arange(1, cells.shape[0]) - 0.5, minor=True)
        axes.grid(visible=True, which="minor", color="white", linewidth=0.6)
    return figure


def _sorts(figure: Any, axes: Any, block: HeatMap, cells: Any, lang: str) -> None:
    from matplotlib.colors import ListedColormap

    names = [words(name, lang) for name in block.classes]
    rest: list[Role] = ["other"] * len(names)
    roles: list[Role] = [*block.roles, *rest][: len(names)]
    tint = colours((f"{i}", role) for i, role in enumerate(roles))
    shown = [tint[f"{i}", role] for i, role in enumerate(roles)]
    axes.imshow(
        cells,
        cmap=ListedColormap(shown),
        vmin=-0.5,
        vmax=len(shown) - 0.5,
        aspect="auto",
        interpolation="nearest",
    )
    present = {int(v) for v in cells[~_missing(cells)]}
    legend(figure, {names[i]: patch(shown[i]) for i in sorted(present) if i < len(names)})


def _amounts(figure: Any, axes: Any, block: HeatMap, cells: Any, lang: str) -> None:
    missing = _missing(cells)
    drawn = axes.imshow(cells, cmap="YlGnBu", aspect="auto", interpolation="nearest")
    if missing.all():
        return
    low, high = float(cells[~missing].min()), float(cells[~missing].max())
    if low >= 0:
        drawn.set_clim(0, high or 1.0)
    scale = figure.colorbar(drawn, ax=axes, fraction=0.03, pad=0.02)
    scale.outline.set_visible(False)
    dress(scale.ax.yaxis, Axis(verbatim(""), block.unit), lang, most=5)
    if cells.size <= _MOST_WRITTEN and cells.shape[1] <= 16:
        for (y, x), value in _each(cells):
            dark = value > low + 0.55 * (high - low)
            axes.text(
                x,
                y,
                cell(value, block.unit, lang),
                ha="center",
                va="center",
                fontsize=7,
                color="white" if dark else INK,
            )


def _each(cells: Any) -> list[tuple[tuple[int, int], float]]:
    height, width = cells.shape
    found = [((y, x), float(cells[y, x])) for y in range(height) for x in range(width)]
    return [(place, value) for place, value in found if not math.isnan(value)]


def _missing(cells: Any) -> Any:
    import numpy as np

    return np.isnan(cells)


def _labels(axis: Any, about: Axis, labels: tuple[str, ...], count: int, lang: str) -> None:
    """Names of rows or columns, or their numbers; every second or third where there are many."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    if labels:
        every = max(1, math.ceil(len(labels) / _MOST_LABELS))
        places = list(range(0, len(labels), every))
        axis.set_ticks(places, [labels[i] for i in places])
        axis.set_label_text(words(about.label, lang))
        return
    if count <= 1:
        axis.set_ticks([])
        axis.set_label_text(words(about.label, lang))
        return
    dress(axis, Axis(about.label, about.unit), lang, most=9)
    places = [p for p in axis.get_major_locator()() if p == int(p) and 0 <= p < count]
    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.0f}"))
