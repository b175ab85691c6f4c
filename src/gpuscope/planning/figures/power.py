"""Power: what the boards of all devices draw on average over a step."""

from __future__ import annotations

from gpuscope.document.quantities import Watts
from gpuscope.document.text import Text
from gpuscope.planning.figures.registry import FIGURES, Figure, Measured, read

_UNITS = {"w": 1.0, "kw": 1e3, "mw": 1e6}


def _read(text: str) -> float:
    return read(text, _UNITS, Text("Power is in W, kW or MW, of all devices."), "power<5kW")


def _of(each: Measured, steps: float) -> float | None:
    return None if each.energy_j is None else each.energy_j / each.step_s


FIGURES.add("power", Figure(name="power", title=Text("power"), read=_read, shown=Watts, of=_of))
