"""Curves, steps and points over a common axis, with marks."""

from __future__ import annotations

import math
from typing import Any

from gpuscope.document.blocks import Lines, Mark, Series
from gpuscope.views.palette import COLOURS
from gpuscope.views.pictures.axes import dress
from gpuscope.views.pictures.frame import legend, sheet
from gpuscope.views.pictures.style import QUIET, colours
from gpuscope.views.quantities import words

_HEIGHT_IN = 3.1


def draw(block: Lines, lang: str) -> Any:
    """Return the figure."""
    figure = sheet(block.title, block.note, _HEIGHT_IN, lang)
    axes = figure.add_subplot()
    shown = panel(axes, block, lang)
    if len(shown) > 1:
        legend(figure, shown)
    return figure


def panel(axes: Any, block: Lines, lang: str) -> dict[str, Any]:
    """Draw the curves into axes; return what a legend shows of each."""
    if block.x.log:
        axes.set_xscale("log")
    if block.y.log:
        axes.set_yscale("log")
    tint = colours((words(s.label, lang), s.role) for s in block.series)
    shown = {}
    for series in block.series:
        name = words(series.label, lang)
        shown[name] = _series(axes, series, tint[name, series.role])
    _limits(axes, block)
    for number, mark in enumerate(block.marks):
        _mark(axes, mark, number, lang)
    dress(axes.xaxis, block.x, lang)
    dress(axes.yaxis, block.y, lang)
    return shown


def _series(axes: Any, series: Series, colour: str) -> Any:
    y = [math.nan if value is None else value for value in series.y]
    if series.shape == "points":
        drawn = axes.plot(
            series.x, y, "o", color=colour, markersize=5, alpha=0.85, markeredgewidth=0
        )[0]
    else:
        style = "steps-post" if series.shape == "steps" else "default"
        drawn = axes.plot(series.x, y, color=colour, linewidth=1.5, drawstyle=style)[0]
    if series.low and series.high:
        step = "post" if series.shape == "steps" else None
        axes.fill_between(
            series.x, series.low, series.high, step=step, color=colour, alpha=0.16, linewidth=0
        )
    return drawn


def _limits(axes: Any, block: Lines) -> None:
    """The data from end to end; an upright axis of amounts begins at zero."""
    xs = [x for s in block.series for x in s.x] + [m.x for m in block.marks if m.x is not None]
    ys = [y for s in block.series for y in (*s.y, *s.high) if y is not None and math.isfinite(y)]
    ys += [m.y for m in block.marks if m.y is not None]
    _one(axes.set_xlim, xs, block.x.log, margin=0.02)
    if ys and not block.y.log and min(ys) >= 0:
        axes.set_ylim(0, max(ys) * 1.08 or 1.0)
    else:
        _one(axes.set_ylim, ys, block.y.log, margin=0.08)


def _one(put: Any, values: list[float], log: bool, margin: float) -> None:
    values = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    if not values:
        return
    low, high = min(values), max(values)
    if log:
        reach = (high / low) ** margin if high > low else 2.0
        put(low / reach, high * reach)
    else:
        reach = (high - low) * margin or abs(high) * 0.5 or 1.0
        put(low - reach if low < 0 or margin < 0.05 else max(0.0, low - reach), high + reach)


def _mark(axes: Any, mark: Mark, number: int, lang: str) -> None:
    colour, name = COLOURS[mark.role], words(mark.label, lang)
    dashed = {"color": colour, "linewidth": 0.9, "linestyle": (0, (4, 2))}
    ground = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5}
    text = {"fontsize": 7.5, "color": colour, "textcoords": "offset points", "bbox": ground}
    if mark.x is not None and mark.y is not None:
        axes.plot([mark.x], [mark.y], "o", color=colour, markersize=6, markeredgecolor="white")
        below = number % 2 == 1
        axes.annotate(
            name,
            (mark.x, mark.y),
            xytext=(7, -8 if below else 6),
            **text,
            va="top" if below else "bottom",
            ha=_side(axes, mark.x),
        )
    elif mark.x is not None:
        axes.axvline(mark.x, **dashed)
        # Neighbours take turns in height, so that their names do not meet.
        axes.annotate(
            name,
            (mark.x, 1),
            xycoords=("data", "axes fraction"),
            va="top",
            xytext=(3 if _side(axes, mark.x) == "left" else -3, -3 - 10 * (number % 3)),
            ha=_side(axes, mark.x),
            **text,
        )
    elif mark.y is not None:
        axes.axhline(mark.y, **dashed)
        axes.annotate(
            name,
            (1, mark.y),
            xycoords=("axes fraction", "data"),
            xytext=(-3, 3),
            ha="right",
            **text,
        )
    else:
        axes.annotate(
            name,
            (0, 1),
            xycoords="axes fraction",
            xytext=(4, -4),
            va="top",
            **{**text, "color": QUIET},
        )


def _side(axes: Any, x: float) -> str:
    """On which side of a place its name has room."""
    inside = axes.transAxes.inverted().transform(axes.transData.transform((x, 1.0)))[0]
    return "right" if inside > 0.7 else "left"
