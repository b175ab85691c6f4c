"""Energy: at the boards of all devices, of a step, or of all steps."""

from __future__ import annotations

from gpuscope.document.quantities import Joules
from gpuscope.document.text import Text
from gpuscope.hardware.grid import JOULES_PER_KWH
from gpuscope.planning.figures.registry import FIGURES, Figure, Measured, read

_UNITS = {"j": 1.0, "kj": 1e3, "mj": 1e6, "wh": 3600.0}
_UNITS |= {"kwh": JOULES_PER_KWH, "mwh": 1e3 * JOULES_PER_KWH}


def _read(text: str) -> float:
    why = Text("Energies are in J, kJ, MJ, Wh, kWh or MWh.")
    return read(text, _UNITS, why, "energy<500kWh")


def _of(each: Measured, steps: float) -> float | None:
    return None if each.energy_j is None else each.energy_j * steps


FIGURES.add(
    "energy",
    Figure(name="energy", title=Text("energy"), read=_read, shown=Joules, of=_of, goal=True),
)
