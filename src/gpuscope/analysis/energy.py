"""Energy of a step: idle power, energy per FLOP, energy per byte of device memory.

    energy = idle power x step + sum over dtypes (FLOPs x energy per FLOP) + bytes x energy per byte

and never more than the board's power limit x step. On-chip traffic (registers, shared memory, L2)
is part of the energy per FLOP. The constants, in order of preference:

1. a calibration: `energy.idle_w` (W), `energy.pj_per_flop.<dtype>` (pJ), `energy.pj_per_byte`
   (pJ); also `energy.active_w` (W), power that a running kernel draws whatever it does;
2. estimates from the datasheet:
   - idle power: the catalogue's, else `IDLE_SHARE` of the board's power (an H200 reads 82 of
     700 W idle);
   - energy per FLOP: a dense matrix product draws the whole board power at `POWER_LIMITED` of
     the dtype's dense peak, as boards of this class do (an H200 reaches 700 W at some 75 % of its
     bf16 peak on random data), so (board power - idle) / (0.75 x peak);
   - energy per byte: the memory's pJ/bit. Micron's memory comparison states 6.0 for HBM2E, 7.25
     for GDDR6X, 7.5 for GDDR6 as average device power; O'Connor et al. (MICRO 2017) 3.92 for HBM2.
     The way across the GPU's die is not in these figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from gpuscope.analysis.breakdown import Rows
from gpuscope.analysis.roofs import Roofs
from gpuscope.analysis.types import Energy
from gpuscope.hardware.device import Device

IDLE_SHARE = 82 / 700
"""Idle power over board power, measured on an H200."""

POWER_LIMITED = 0.75
"""Share of the dense peak at which a matrix product draws the whole board power."""

PJ_PER_BIT: tuple[tuple[str, float], ...] = (
    ("HBM2E", 6.0), ("HBM2", 3.92), ("HBM", 6.0), ("GDDR6X", 7.25), ("GDDR", 7.5),
)  # fmt: skip
"""Energy of moving one bit, by how the memory type's name begins; newer HBM as HBM2E."""

OTHER_PJ_PER_BIT = 6.0
"""For memory types without a published figure (LPDDR and others): that of HBM2E."""


class Constants(Protocol):
    """Named constants, such as a `gpuscope.hardware.Calibration` or a plain dict."""

    def __contains__(self, name: str, /) -> bool: ...

    def get(self, name: str, default: float, /) -> float:
        """Return a constant, or the default where it is not known."""
        ...


def energy(
    rows: Rows,
    roofs: Roofs,
    step_s: float,
    busy_s: float,
    calibration: Constants | Mapping[str, float] | None = None,
) -> Energy | None:
    """Return the energy of one step on one device; None without a device or kernels.

    `total_j` is None where neither the catalogue nor the calibration knows the board's power.
    The cost is the step at the catalogue's price per hour, None where no price is known.
    """
    device = roofs.device
    if device is None:
        return None
    cost = device.price_usd_per_hour
    cost_usd = None if cost is None else cost / 3600 * step_s
    known = calibration if calibration is not None else {}
    idle_w = _idle_w(device, known)
    if idle_w is None or not rows.kernels.kernels:
        return Energy(None, None, None, None, None, cost_usd, "not available: no power figure")
    compute_j = _compute_j(rows, roofs, idle_w, known)
    if compute_j is None:
        why = "not available: no board power to derive the energy of a FLOP from"
        return Energy(None, idle_w * step_s, None, None, None, cost_usd, why)
    compute_j += busy_s * known.get("energy.active_w", 0.0)
    moved = float(rows.moved_bytes.sum()) / rows.work.window.steps
    memory_j = moved * _pj_per_byte(device, known) * 1e-12
    compute_j, memory_j = _capped(device, step_s, idle_w * step_s, compute_j, memory_j)
    total = idle_w * step_s + compute_j + memory_j
    return Energy(
        total_j=total,
        idle_j=idle_w * step_s,
        compute_j=compute_j,
        memory_j=memory_j,
        average_w=total / step_s if step_s > 0 else None,
        cost_usd=cost_usd,
        source=_source(device, known),
    )


def _idle_w(device: Device, known: Constants | Mapping[str, float]) -> float | None:
    fallback = device.idle_power_w
    if fallback is None and device.tdp_w is not None:
        fallback = IDLE_SHARE * device.tdp_w
    if "energy.idle_w" in known:
        return float(known.get("energy.idle_w", 0.0))
    return fallback


def _pj_per_byte(device: Device, known: Constants | Mapping[str, float]) -> float:
    memory = (device.memory_type or "").upper()
    per_bit = next((pj for name, pj in PJ_PER_BIT if memory.startswith(name)), OTHER_PJ_PER_BIT)
    return float(known.get("energy.pj_per_byte", 8 * per_bit))


def _compute_j(
    rows: Rows, roofs: Roofs, idle_w: float, known: Constants | Mapping[str, float]
) -> float | None:
    """Joules of all FLOPs of a step; None where a dtype's energy per FLOP cannot be said."""
    table, kinds = rows.kernels.dtype.table, rows.kernels.kind.table
    codes = rows.kernels.dtype.take(rows.work.kernel) * len(kinds)
    codes = codes + rows.kernels.kind.take(rows.work.kernel)
    flops = np.bincount(codes, weights=rows.flops, minlength=len(table) * len(kinds))
    total = 0.0
    for code in np.flatnonzero(flops):
        dtype, kind = table[code // len(kinds)], kinds[code % len(kinds)]
        pj = _pj_per_flop(roofs, dtype, kind, idle_w, known)
        if pj is None:
            return None
        total += float(flops[code]) * pj * 1e-12
    return total / rows.work.window.steps


def _pj_per_flop(
    roofs: Roofs, dtype: str, kind: str, idle_w: float, known: Constants | Mapping[str, float]
) -> float | None:
    name = f"energy.pj_per_flop.{dtype}"
    if name in known:
        return float(known.get(name, 0.0))
    peak = roofs.peak_flops_per_s(dtype, kind) or roofs.peak_flops_per_s("float32", kind)
    tdp_w = roofs.device.tdp_w if roofs.device else None
    if peak is None or tdp_w is None:
        return None
    return max(0.0, tdp_w - idle_w) / (POWER_LIMITED * peak) * 1e12


def _capped(
    device: Device, step_s: float, idle_j: float, compute_j: float, memory_j: float
) -> tuple[float, float]:
    """Scale the active parts so that the board's power limit holds."""
    active = compute_j + memory_j
    if device.tdp_w is None or active <= 0:
        return compute_j, memory_j
    room = max(0.0, device.tdp_w * step_s - idle_j)
    factor = min(1.0, room / active)
    return compute_j * factor, memory_j * factor


def _source(device: Device, known: Constants | Mapping[str, float]) -> str:
    measured = any(name in known for name in ("energy.idle_w", "energy.pj_per_byte"))
    if measured:
        return "calibrated: idle power, energy per FLOP and per byte measured on a device"
    return (
        f"estimated: idle power + FLOPs (board power {device.tdp_w or 0:g} W at "
        f"{POWER_LIMITED:.0%} of the dense peak) + bytes "
        f"({_pj_per_byte(device, known) / 8:g} pJ/bit of {device.memory_type or 'memory'})"
    )
