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
    return "".join(" " if value is None else STEPS[_step(value / top)] for value in values)


def _step(share: float) -> int:
    return min(max(int(share * len(STEPS)), 0), len(STEPS) - 1)


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
