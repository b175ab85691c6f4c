"""How far the kernels of one kind err together in a step, in programs of families that no fit saw.

Kernels of a kind share causes: which kernel a library chooses, a layout, a rate. So beside its own
interval, which averages out over different kernels, each has a part of its error in common with the
others of its kind. `kind_spread.toml` holds that part by kind; `python validation/kind_errors.py`
finds it and writes it.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".toml")


@cache
def kind_spreads() -> dict[str, float]:
    """Relative 80 % half-width by kind of kernel; a kind that is missing has the device's own."""
    found = tomllib.loads(FILE.read_text("utf-8"))["spread"]
    return {kind: float(spread) for kind, spread in found.items()}


def spread_of(kind: str, device_spread: float) -> float:
    """What a kind's kernels err by together: what was seen of it, or the device's if that is more.

    Args:
        kind: of kernel, as `Kernel.kind`.
        device_spread: `CostedProgram.device_spread`.
    """
    return max(device_spread, kind_spreads().get(kind, 0.0))
