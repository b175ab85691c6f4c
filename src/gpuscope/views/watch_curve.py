"""A curve of one line for a table's cell: the last minutes of a figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

STEPS = "▁▂▃▄▅▆▇"
"""No full cell: curves of neighbouring lines would run together."""

LEAST_COLUMNS = 8
"""Below so many columns a curve says nothing."""


def curve_text(values: Sequence[float | None], top: float = 1.0) -> str:
    """Return one character a value, from the lowest step (0) to the highest (`top` and above).

    Args:
        values: None leaves a blank.
        top: the value of the highest step; above zero.
    """
    return "".join(" " if value is None else STEPS[_step(value / top)] for value in values)


def _step(share: float) -> int:
    return min(max(int(share * len(STEPS)), 0), len(STEPS) - 1)


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve as wide as its cell.

    Attributes:
        columns_of: gives so many values as the cell has columns.
        style: its colour.
        top: the value of the highest step.
    """

    columns_of: Callable[[int], Sequence[float | None]]
    style: str = "blue"
    top: float = 1.0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it in the room there is."""
        text = curve_text(self.columns_of(options.max_width), self.top)
        yield Text(text, style=self.style, no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Take what is left."""
        return Measurement(min(LEAST_COLUMNS, options.max_width), options.max_width)
