"""Time: of a step, or of all steps."""

from __future__ import annotations

from gpuscope.document.quantities import Amount, Quantity, Seconds
from gpuscope.document.text import Text
from gpuscope.planning.figures.registry import FIGURES, Figure, Measured, read

_DAY_S = 86400.0
_UNITS = {
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    **dict.fromkeys(("d", "day", "days"), _DAY_S),
    **dict.fromkeys(("w", "week", "weeks"), 7 * _DAY_S),
}


def _read(text: str) -> float:
    return read(text, _UNITS, Text("Times are in ms, s, min, h, d or w."), "time<7d")


def _of(each: Measured, steps: float) -> float | None:
    return each.step_s * steps


def _shown(value: float) -> Quantity:
    """Long times in hours and days."""
    if value >= _DAY_S:
        return Amount(value / _DAY_S, "d")
    return Amount(value / 3600, "h") if value >= 3600 else Seconds(value)


FIGURES.add(
    "time",
    Figure(
        name="time", title=Text("time"), read=_read, shown=_shown, of=_of, goal=True, timed=True
    ),
)
