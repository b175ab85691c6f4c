"""Axes of the pictures: named, with round ticks in the unit that suits their size."""

from __future__ import annotations

from typing import Any

from gpuscope.document.blocks import Axis
from gpuscope.views.quantities import tick, ticks, words

MOST_TICKS = 7


def dress(axis: Any, about: Axis, lang: str, most: int = MOST_TICKS) -> None:
    """Give a matplotlib axis (`ax.xaxis`, `ax.yaxis`) its name and ticks; call it last.

    Args:
        axis: matplotlib's, its limits set.
        about: name and unit; `log` only if the axis was made logarithmic.
        lang: "en" or "zh".
        most: ticks.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    begin, end = axis.get_view_interval()
    low, high = min(begin, end), max(begin, end)
    places = [p for p in ticks(low, high, most, unit=about.unit, log=about.log) if low <= p <= high]
    axis.set_major_locator(FixedLocator(places))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value, about.unit, lang)))
    axis.set_minor_formatter(NullFormatter())
    axis.set_label_text(words(about.label, lang))
    # A limit that was left open moves once ticks are drawn: hold it.
    axis.set_view_interval(begin, end, ignore=True)
