"""How far the kernels of one kind err together in a step, in programs of families that no fit saw.

Kernels of a kind share causes: which kernel a library chooses, a layout, a rate. So beside its own
interval, which averages out over different kernels, each has a part of its error in common with the
others of its kind. What nobody modelled makes a kernel slower, hardly ever quicker, so the two
sides are told apart. `kind_spread.toml` holds both by kind; `python validation/kind_errors.py`
finds and writes them.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_suffix(".toml")


class Spread(NamedTuple):
    """Relative half-widths of an 80 % interval."""

    below: float
    above: float


@cache
def kind_spreads() -> dict[str, Spread]:
    """By kind of kernel; a kind that is missing has the device's own."""
    found = tomllib.loads(FILE.read_text("utf-8"))
    return {kind: Spread(float(s["below"]), float(s["above"])) for kind, s in found.items()}


def spread_of(kind: str, device_spread: float, *, upwards: bool) -> float:
    """What a kind's kernels err by together: what was seen of it, or the device's if that is more.

    Args:
        kind: of kernel, as `Kernel.kind`.
        device_spread: `CostedProgram.device_spread`.
        upwards: how much longer than predicted; else how much shorter.
    """
    seen = kind_spreads().get(kind)
    if seen is None:
        return device_spread
    return max(device_spread, seen.above if upwards else seen.below)
