"""A curve of one line: the last minutes of a figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuscope.views.watch_rows import Draw

STEPS = "▁▂▃▄▅▆▇"
"""No full cell: curves of neighbouring lines would run together."""


def curve_text(values: Sequence[float | None], top: float = 1.0) -> str:
    """Return one character a value, from the lowest step (0) to the highest (`top` and above).

    Args:
        values: None leaves a blank.
        top: the value of the highest step; above zero.
    """
    scale, last = len(STEPS) / top, len(STEPS) - 1
    return "".join(
        [" " if value is None else STEPS[int(min(max(value * scale, 0), last))] for value in values]
    )


def curve(
    columns_of: Callable[[int], Sequence[float | None]], style: str, top: float = 1.0
) -> Draw:
    """Return what draws a curve over the columns that it gets.

    Args:
        columns_of: gives so many values as there are columns.
        style: its colour.
        top: the value of the highest step.
    """
    return lambda width: ((curve_text(columns_of(width), top), style),)
