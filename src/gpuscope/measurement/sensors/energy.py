"""Energy between two moments, from a device's counter, over a window long enough to be true.

A counter is not continuous: drivers add to it every 20 to 100 ms (so found for the power reading
of NVIDIA devices by Yang, Adamek and Armour, "Part-time Power Measurements: nvidia-smi's Lack of
Attention", 2023, arXiv:2312.02741; taken here to hold for the energy counter). A window's energy
is therefore wrong by up to one update at each end. The rule here: a window of at least one second,
and one in which the counter moved; else the energy is not available. The uncertainty that remains
is told: average power x 0.1 s.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.measurement.sensors.types import Reading, Sensor

MIN_WINDOW_S = 1.0
"""Shortest window whose energy is told."""

UPDATE_S = 0.1
"""Longest time that a counter is taken to stand still under load."""


@dataclass(frozen=True, slots=True)
class EnergySpan:
    """Energy between two readings.

    Attributes:
        energy_j: from the first to the last.
        seconds: between them.
        average_w: energy_j / seconds.
        uncertainty_j: what the counter's updates leave open.
    """

    energy_j: float
    seconds: float
    average_w: float
    uncertainty_j: float


def energy_between(first: Reading, last: Reading) -> EnergySpan | None:
    """Return the energy between two readings of one sensor.

    Returns:
        None where a reading lacks it, the window is shorter than `MIN_WINDOW_S`, or the counter
        did not move forward (it stood still, or was reset).
    """
    if first.energy_j is None or last.energy_j is None:
        return None
    seconds = last.time_s - first.time_s
    energy_j = last.energy_j - first.energy_j
    if seconds < MIN_WINDOW_S or energy_j <= 0:
        return None
    average_w = energy_j / seconds
    return EnergySpan(energy_j, seconds, average_w, average_w * UPDATE_S)


class EnergyWindow:
    """The energy that a device uses inside a `with` block.

    >>> with EnergyWindow(sensor) as window:
    ...     work()
    >>> window.span                       # None if it cannot be said
    """

    def __init__(self, sensor: Sensor | None) -> None:
        """`sensor` may be None: then the energy is not available."""
        self._sensor = sensor
        self.first: Reading | None = None
        self.last: Reading | None = None

    def __enter__(self) -> EnergyWindow:
        self.first = self._sensor.read() if self._sensor else None
        return self

    def __exit__(self, *_: object) -> None:
        self.last = self._sensor.read() if self._sensor else None

    @property
    def span(self) -> EnergySpan | None:
        """Energy of the block; None while it runs, and where it cannot be said."""
        if self.first is None or self.last is None:
            return None
        return energy_between(self.first, self.last)
