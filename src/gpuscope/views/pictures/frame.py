"""What all pictures share: the sheet with its title and note, and the legend."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpuscope.document.text import Text
from gpuscope.views.line_breaks import columns
from gpuscope.views.pictures.style import QUIET, WIDTH_IN, wrapped
from gpuscope.views.quantities import words

_HEADING_IN, _LINE_IN, _LEGEND_IN = 0.2, 0.155, 0.175


def sheet(title: Text, note: Text | None, height_in: float, lang: str) -> Any:
    """Return an empty figure with its title above and its note below.

    Args:
        title, note: as the block has them.
        height_in: room for the drawing; title and note come on top of it.
        lang: "en" or "zh".
    """
    from matplotlib.figure import Figure

    heading, remark = wrapped(words(title, lang), 84), wrapped(words(note, lang), 112)
    above = (heading.count("\n") + 1) * _HEADING_IN + 0.14
    below = (remark.count("\n") + 1) * _LINE_IN + 0.08 if remark else 0.0
    height = height_in + above + below
    figure = Figure(figsize=(WIDTH_IN, height), layout="constrained")
    # The drawing and its legend keep clear of title and note.
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.08, h_pad=0.05, rect=(0, below / height, 1, 1 - (above + below) / height))
    figure.text(
        0.012, 1 - 0.08 / height, heading, ha="left", va="top", fontsize=10.5, fontweight="bold"
    )
    if remark:
        figure.text(
            0.012,
            0.06 / height,
            remark,
            ha="left",
            va="bottom",
            fontsize=8,
            color=QUIET,
            linespacing=1.3,
        )
    return figure


def legend(figure: Any, entries: Mapping[str, Any]) -> None:
    """Put a legend between the drawing and the note; the sheet grows by its height.

    Args:
        figure: of `sheet`.
        entries: name -> matplotlib artist that shows how it looks.
    """
    if not entries:
        return
    widest = max(columns(name) for name in entries)
    across = min(len(entries), max(1, min(6, 108 // (widest + 6))))
    room_in = math.ceil(len(entries) / across) * _LEGEND_IN + 0.08
    width, before = figure.get_size_inches()
    after, engine = before + room_in, figure.get_layout_engine()
    _, low, _, high = engine.get()["rect"]
    for text in figure.texts:
        x, y = text.get_position()
        # The title stays as far from the top, the note as far from the bottom.
        top = text.get_verticalalignment() == "top"
        text.set_position((x, 1 - (1 - y) * before / after if top else y * before / after))
    figure.set_size_inches(width, after)
    bottom = low * before / after
    engine.set(rect=(0, bottom + room_in / after, 1, high * before / after))
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="lower left",
        bbox_to_anchor=(0.0, bottom),
        ncols=across,
        handlelength=1.2,
        columnspacing=1.4,
        borderaxespad=0.3,
    )


def patch(colour: str) -> Any:
    """Return what shows a filled colour in a legend."""
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, edgecolor="none")
