"""Energy of a step: at rest, running, per FLOP, per byte.

    energy = power at rest x step + running power x device time
             + sum over dtypes (FLOPs x energy per FLOP) + bytes x energy per byte

and never more than the board's power limit x step. Running power is what any kernel draws beside
its work: clocks, schedulers, leakage of units that are switched on. On-chip traffic (registers,
shared memory, L2) is part of the energy per FLOP and per byte. The constants, in order of
preference:

1. a calibration: `energy.idle_w`, `energy.active_w` (W), `energy.pj_per_flop.<dtype>`,
   `energy.pj_per_byte` (pJ);
2. estimates from the datasheet:
   - at rest: `REST_SHARE` of the board power, or the catalogue's idle power where that is more;
   - running: `ACTIVE_SHARE` of the board power;
   - per FLOP: what the board power leaves, spread over the FLOPs of a kernel at `MATRIX_LIMIT`
     (vector lanes: `VECTOR_LIMIT`) of the dtype's dense peak;
   - per byte: the memory's own energy (Micron's memory comparison: 6.0 pJ/bit for HBM2E, 7.25 for
     GDDR6X, 7.5 for GDDR6 as average device power; O'Connor et al., MICRO 2017: 3.92 for HBM2)
     and `ON_DIE_PJ_PER_BYTE` for the way across the GPU.

The shares are a least-squares fit to the measured energy of 22 whole workloads on one H200
(`benchmarks/analysis_energy.py`): 90 W at rest, 226 W running, 0.71 pJ/FLOP in bf16, 1.55 in TF32,
6.5 in float32, 75 pJ/byte; mean error 3.5 %, largest 12 %; 5.0 % for workloads left out of the
fit. Other devices are taken to be alike in proportion to their board power, which nobody has
checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from gpuscope.analysis.breakdown import Rows
from gpuscope.analysis.roofs import MATRIX_KINDS, Roofs
from gpuscope.analysis.types import Energy
from gpuscope.hardware.device import Device

REST_SHARE = 90 / 700
"""Power at rest over board power: 90 W of 700 fitted on an H200. A device that a process holds
rests above its idle reading (82 W)."""

ACTIVE_SHARE = 226 / 700
"""Running power over board power: 226 W of 700 fitted on an H200."""

MATRIX_LIMIT = 0.55
"""Share of the dense peak at which the matrix units use up what the board power leaves: 0.71 pJ a
bf16 FLOP on an H200, so (700 - 90 - 226) W buy 543 of 989 TFLOP/s (TF32: 248 of 495)."""

VECTOR_LIMIT = 0.89
"""The same for the vector lanes: 6.5 pJ a float32 FLOP, 59 of 67 TFLOP/s."""

ON_DIE_PJ_PER_BYTE = 27.0
"""From memory controller to multiprocessor: the 75 pJ/byte fitted on an H200 less the memory's
own 48."""

PJ_PER_BIT: tuple[tuple[str, float], ...] = (
    ("HBM2E", 6.0), ("HBM2", 3.92), ("HBM", 6.0), ("GDDR6X", 7.25), ("GDDR", 7.5),
)  # fmt: skip
"""Energy of moving one bit, by how the memory type's name begins; newer HBM as HBM2E."""

_VECTOR_DTYPES = frozenset({"float32"})
"""Matrix products in plain float32 run on the vector lanes of GPUs."""

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
    active_j = busy_s * _active_w(device, known)
    moved = float(rows.moved_bytes.sum()) / rows.work.window.steps
    memory_j = moved * _pj_per_byte(device, known) * 1e-12
    idle_j = idle_w * step_s
    factor = _within_limit(device, step_s, idle_j, active_j + compute_j + memory_j)
    total = idle_j + factor * (active_j + compute_j + memory_j)
    return Energy(
        total_j=total,
        idle_j=idle_j,
        compute_j=factor * compute_j,
        memory_j=factor * memory_j,
        average_w=total / step_s if step_s > 0 else None,
        cost_usd=cost_usd,
        source=_source(device, known),
        active_j=factor * active_j,
    )


def _idle_w(device: Device, known: Constants | Mapping[str, float]) -> float | None:
    fallback = device.idle_power_w
    if device.tdp_w is not None:
        fallback = max(REST_SHARE * device.tdp_w, fallback or 0.0)
    if "energy.idle_w" in known:
        return float(known.get("energy.idle_w", 0.0))
    return fallback


def _active_w(device: Device, known: Constants | Mapping[str, float]) -> float:
    return float(known.get("energy.active_w", ACTIVE_SHARE * (device.tdp_w or 0.0)))


def _pj_per_byte(device: Device, known: Constants | Mapping[str, float]) -> float:
    memory = (device.memory_type or "").upper()
    per_bit = next((pj for name, pj in PJ_PER_BIT if memory.startswith(name)), OTHER_PJ_PER_BIT)
    return float(known.get("energy.pj_per_byte", 8 * per_bit + ON_DIE_PJ_PER_BYTE))


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
    limit = MATRIX_LIMIT if kind in MATRIX_KINDS and dtype not in _VECTOR_DTYPES else VECTOR_LIMIT
    active_w = _active_w(roofs.device, known) if roofs.device else 0.0
    return max(0.0, tdp_w - idle_w - active_w) / (limit * peak) * 1e12


def _within_limit(device: Device, step_s: float, idle_j: float, above_j: float) -> float:
    """Factor on the energy above rest so that the board's power limit holds."""
    if device.tdp_w is None or above_j <= 0:
        return 1.0
    return min(1.0, max(0.0, device.tdp_w * step_s - idle_j) / above_j)


def _source(device: Device, known: Constants | Mapping[str, float]) -> str:
    measured = any(name in known for name in ("energy.idle_w", "energy.pj_per_byte"))
    if measured:
        return "calibrated: idle power, energy per FLOP and per byte measured on a device"
    return (
        f"estimated from the board power of {device.tdp_w or 0:g} W with shares fitted on an H200: "
        f"at rest, running, per FLOP, and {_pj_per_byte(device, known):g} pJ per byte of "
        f"{device.memory_type or 'memory'}"
    )
