"""Apple devices: absent.

macOS tells power and clocks only to `powermetrics`, which needs the administrator, and there is no
supported Python binding. So nothing is read, rather than something guessed.
"""

from __future__ import annotations

from gpuscope.measurement.sensors.registry import sensor_vendor
from gpuscope.measurement.sensors.types import Sensor


@sensor_vendor("apple")
def open_apple(index: int) -> Sensor | None:
    """Return None: see the module."""
    return None
