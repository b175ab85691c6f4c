"""Energy of a step: at rest, active, issuing, per FLOP, per byte.

    energy = power at rest x step
             + active power x time x share of multiprocessors that hold blocks
             + vector power x time that kernels outside the matrix families spend issuing
             + sum over dtypes (FLOPs of the matrix families x energy per FLOP)
             + device-memory bytes x energy per byte

and never more than the power that the device holds under its limit x step. The physics and its
constants (`power.*` of a calibration) are those of `gpuscope.cost.power`, which also lowers the
clock where the limit binds: 79 steady loads of one operator each on an H200, met with a mean
error of 6 %; carried to other devices in proportion to their board power, which nobody has checked.

How it fares on whole workloads, none of which a constant was fitted to: docs/analysis.md.
"""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.breakdown import Rows
from gpuscope.analysis.columns import take
from gpuscope.analysis.roofs import Roofs
from gpuscope.analysis.types import Energy
from gpuscope.cost.power import MATRIX_KINDS, Named, PowerModel, StepEnergy, power_model
from gpuscope.document.quantities import Number, Watts
from gpuscope.document.text import Text
from gpuscope.hardware import Calibration, Device, calibration_for

Constants = Named


MOST_UNMODELLED = 0.1
"""Share of a recording's busy time in kernels without a model above which nothing is said."""


def energy(
    rows: Rows,
    roofs: Roofs,
    step_s: float,
    calibration: Constants | None = None,
    known: StepEnergy | None = None,
) -> Energy | None:
    """Return the energy of one step on one device; None without a device or kernels.

    `known` is that of a prediction, whose kernels are costed at their own clock as well
    (`gpuscope.cost.power.step_energy`); a recording's follows from its kernels here.

    `total_j` is None where the catalogue does not know the board's power. The cost is the step at
    the catalogue's price per hour, None where no price is known. `calibration` is the catalogue's
    own for the device by default.
    """
    device = roofs.device
    if device is None:
        return None
    cost = device.price_usd_per_hour
    cost_usd = None if cost is None else cost / 3600 * step_s
    constants = calibration if calibration is not None else calibration_for(device)
    model = power_model(device, constants)
    unknown = not rows.kernels.kernels or rows.unmodelled_share() > MOST_UNMODELLED
    if model is None or unknown:
        idle_w = device.idle_power_w if model is None else model.idle_w
        why = (
            Text("not available: no board power")
            if model is None
            else Text("not available: the kernels' work is not known")
        )
        return Energy(
            None, None if idle_w is None else idle_w * step_s, None, None, None, cost_usd, why
        )
    found = _of_rows(rows, model, step_s) if known is None else known
    total = found.total_j
    return Energy(
        total_j=total,
        idle_j=found.idle_j,
        compute_j=found.compute_j,
        memory_j=found.memory_j,
        average_w=total / step_s if step_s > 0 else None,
        cost_usd=cost_usd,
        source=_source(device, model, constants),
        active_j=found.active_j,
    )


def _of_rows(rows: Rows, model: PowerModel, step_s: float) -> StepEnergy:
    """Energy of a step by its device events."""
    work_j, idle_j = _work_j(rows, model), model.idle_w * step_s
    factor = _within_limit(model, step_s, idle_j, sum(work_j))
    return StepEnergy(idle_j, *(factor * part for part in work_j))


def _work_j(rows: Rows, model: PowerModel) -> tuple[float, float, float]:
    """Joules of a step above rest: vector kernels, matrix families' FLOPs, device memory."""
    kernels = rows.kernels.kernels
    matrix = np.array([k.kind in MATRIX_KINDS for k in kernels])
    parts = np.array([model.work_j(k) for k in kernels])
    arithmetic, memory = take(parts[:, 0], rows.work.kernel), take(parts[:, 1], rows.work.kernel)
    is_matrix = take(matrix.astype(np.float64), rows.work.kernel)
    steps = rows.work.window.steps
    return (
        float((arithmetic * (1.0 - is_matrix)).sum()) / steps,
        float((arithmetic * is_matrix).sum()) / steps,
        float(memory.sum()) / steps,
    )


def _within_limit(model: PowerModel, step_s: float, idle_j: float, above_j: float) -> float:
    """Factor on the energy above rest so that the power limit holds."""
    if above_j <= 0:
        return 1.0
    return min(1.0, max(0.0, model.limit_w * step_s - idle_j) / above_j)


def _source(device: Device, model: PowerModel, known: Constants) -> Text:
    measured_on = known.measured_on if isinstance(known, Calibration) else device.id
    if measured_on == device.id:
        return Text(
            "calibrated: power at rest, active, issuing, per FLOP and byte under steady loads"
        )
    return Text(
        "estimated from the board power of {board} with shares measured on {measured_on}, and "
        "{per_byte} pJ per byte of {memory}",
        board=Watts(model.board_w),
        measured_on=measured_on or Text("another device"),
        per_byte=Number(model.pj_per_byte, ".0f"),
        memory=device.memory_type or Text("memory"),
    )
