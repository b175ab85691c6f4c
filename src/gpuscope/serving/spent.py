"""What a serving run costs beside time: energy, and the price of its devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuscope.serving.result import Serving

if TYPE_CHECKING:
    from gpuscope.serving.simulate import Deployment


def usd_per_hour(found: Deployment) -> float | None:
    """Of all devices, by the catalogue's prices."""
    prices = [each.cluster.price_usd_per_hour for each in (found, found.prefill) if each]
    return None if None in prices else sum(price for price in prices if price is not None)


def energy_j(found: Deployment, made: Serving) -> float | None:
    """Board power while the device works, at rest else: an upper estimate of what it draws."""
    rows, lasts_s = made.iterations, float(np.nanmax(made.served.finished_s))
    first = found.prefill.ranks if found.prefill else 0
    parts = [_drawn_j(found, float(rows.device_s[rows.replica >= first].sum()), lasts_s)]
    if found.prefill:
        busy_s = float(rows.device_s[rows.replica < first].sum())
        parts.append(_drawn_j(found.prefill, busy_s, lasts_s))
    return None if None in parts else sum(part for part in parts if part is not None)


def _drawn_j(found: Deployment, busy_s: float, lasts_s: float) -> float | None:
    device = found.cluster.device
    if device.tdp_w is None:
        return None
    lasts = lasts_s * found.ranks
    busy = min(busy_s, lasts)
    rest_w = device.idle_power_w or 0.15 * device.tdp_w
    # Decoding waits for the memory: a board draws about three quarters of its limit.
    return found.tp / found.dp * (busy * 0.75 * device.tdp_w + (lasts - busy) * rest_w)
