"""From a bench to constants: `calibrate` fits, `save_as_this` stores them as this machine's.

Importing this package imports no torch; fitting the host's terms does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuscope.measurement.calibrate.machine_constants import calibrate, measured_with
    from gpuscope.measurement.calibrate.saving import (
        calibration_text,
        save_as_this,
        save_calibration,
    )

__all__ = ["calibrate", "calibration_text", "measured_with", "save_as_this", "save_calibration"]

_HOME = {
    "calibrate": "machine_constants",
    "calibration_text": "saving",
    "measured_with": "machine_constants",
    "save_as_this": "saving",
    "save_calibration": "saving",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
