"""Horizontal bars on one scale, single or stacked."""

from __future__ import annotations

from typing import Any

from gpuscope.document.blocks import Axis, Bar, Bars
from gpuscope.document.text import verbatim
from gpuscope.views.pictures.axes import dress
from gpuscope.views.pictures.frame import legend, patch, sheet
from gpuscope.views.pictures.style import INK, QUIET, needs_no_legend, part_colours, shortened
from gpuscope.views.quantities import cell, words

_ROW_IN = 0.27


def draw(block: Bars, lang: str) -> Any:
    """Return the figure."""
    figure = sheet(block.title, block.note, 0.55 + _ROW_IN * max(1, len(block.bars)), lang)
    axes = figure.add_subplot()
    tint = part_colours(block, lang)
    seen = {(words(p.label, lang), p.role) for b in block.bars for p in b.parts if p.value}
    names = list(dict.fromkeys(name for name, role in tint if (name, role) in seen))
    for row, bar in enumerate(block.bars):
        _bar(axes, row, bar, tint, lang)
    _limit(axes, block, lang)
    top = max([b.start + _total(b) for b in block.bars] + [block.limit or 0.0])
    axes.set_xlim(0, top * 1.02 or 1.0)
    for row, bar in enumerate(block.bars):
        _value(axes, row, bar, block.unit, lang)
    axes.set_yticks(
        range(len(block.bars)), [shortened(cell(b.label, "", lang), 44) for b in block.bars]
    )
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(block.bars) - 0.45, -0.6)
    dress(axes.xaxis, Axis(verbatim(""), block.unit), lang, most=6)
    if len(names) > 1 and not needs_no_legend(block):
        shown = {name: patch(colour) for (name, _), colour in reversed(tint.items())}
        legend(figure, {name: shown[name] for name in names})
    return figure


def _total(bar: Bar) -> float:
    return sum(part.value for part in bar.parts)


def _bar(axes: Any, row: int, bar: Bar, tint: dict[Any, str], lang: str) -> None:
    left = bar.start
    stretches: dict[str, list[tuple[float, float]]] = {}
    for part in bar.parts:
        colour = tint[words(part.label, lang), part.role]
        stretches.setdefault(colour, []).append((left, part.value))
        left += part.value
    # One collection a colour: a lane of a timeline has hundreds of parts.
    for colour, places in stretches.items():
        axes.broken_barh(places, (row - 0.33, 0.66), facecolors=colour, linewidth=0)


def _value(axes: Any, row: int, bar: Bar, unit: str, lang: str) -> None:
    """The bar's value behind it, and its remark in grey."""
    text = axes.annotate(
        cell(_total(bar), unit, lang),
        (bar.start + _total(bar), row),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
    )
    if bar.note is not None:
        axes.annotate(
            shortened(words(bar.note, lang), 60),
            (1, 0.5),
            xycoords=text,
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=QUIET,
        )


def _limit(axes: Any, block: Bars, lang: str) -> None:
    if block.limit is None:
        return
    axes.axvline(block.limit, color=INK, linewidth=1, linestyle=(0, (4, 2)))
    if block.limit_label is not None:
        text = f"{words(block.limit_label, lang)}: {cell(block.limit, block.unit, lang)}"
        axes.annotate(
            text,
            (block.limit, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=7.5,
            color=INK,
        )
