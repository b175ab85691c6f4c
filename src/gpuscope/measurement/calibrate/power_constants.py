"""What a device draws with nothing to do, and the most it is let draw, from measured loads."""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.hardware import CalibratedValue, Device
from gpuscope.measurement.bench.types import Point

_IDLE = "idle_with_context"
_CAPPED = ("power_cap", "sw_power_cap", "power")
_LEAST_SPREAD = 0.03


def power_constants(points: Iterable[Point], device: Device) -> dict[str, CalibratedValue]:
    """`power.idle_share`, and `power.limit_share` where a load was held down by the power limit.

    Args:
        points: of the bench "power", with a "power_w" among their values.
        device: whose board power both are shares of.
    """
    board_w = device.tdp_w
    if not board_w:
        return {}
    idle, capped = None, []
    for p in points:
        watts = p.values.get("power_w")
        if p.bench != "power" or not watts:
            continue
        if p.params.get("load") == _IDLE:
            idle = watts
        elif p.throttled and any(word in reason for reason in p.throttled for word in _CAPPED):
            capped.append(watts)
    found = {}
    if idle is not None:
        found["power.idle_share"] = _share(idle / board_w, "nothing running, a context open")
    if capped:
        found["power.limit_share"] = _share(
            max(capped) / board_w, f"{len(capped)} loads held down by the power limit"
        )
    return found


def _share(value: float, note: str) -> CalibratedValue:
    half = _LEAST_SPREAD * value
    return CalibratedValue(value, "1", "measured", value - half, value + half, note)
