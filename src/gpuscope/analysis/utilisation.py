"""How much of the device's peak a step uses: MFU and HFU, with their definition."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.breakdown import Rows
from gpuscope.analysis.roofs import MATRIX_KINDS, Roofs
from gpuscope.analysis.types import Utilisation

DEFINITION = (
    "Model FLOPs are those of matrix products, convolutions, attention and recurrent layers of "
    "the forward and backward pass, 2 per multiply-add; causal attention counts the half that the "
    "mask leaves; norms, activations and the optimizer do not count. MFU = model FLOPs / (step "
    "time x dense peak of {dtype}). HFU also counts forward work repeated in the backward pass "
    "(activation checkpointing)."
)


def utilisation(rows: Rows, roofs: Roofs, step_s: float) -> Utilisation | None:
    """Return MFU and HFU of one step; None where no kernel states its FLOPs.

    The peak is that of the dtype in which most of the FLOPs run, on the matrix units. FLOPs are
    `Kernel.flops`, which are useful ones (see `gpuscope.cost.types`); those of operators that
    checkpointing repeats count as hardware FLOPs only. The notion of MFU is that of the PaLM
    paper (Chowdhery et al. 2022, appendix B), HFU that of Korthikanti et al. 2022.
    """
    kinds = np.array([kind in MATRIX_KINDS for kind in rows.kernels.kind.table])
    counted = kinds[rows.kernels.kind.take(rows.work.kernel)]
    flops = np.where(counted, rows.flops, 0.0) / rows.work.window.steps
    hardware = float(flops.sum())
    if hardware <= 0 or step_s <= 0:
        return None
    again = np.zeros(len(flops), bool)
    if rows.ops.ops:
        again = np.where(rows.work.op >= 0, rows.ops.recomputed[rows.work.op], False)
    model = float(flops[~again].sum())
    dtype = _main_dtype(rows, flops)
    peak = roofs.peak_flops_per_s(dtype)
    return Utilisation(
        model_flops=model,
        hardware_flops=hardware,
        peak_flops_per_s=peak,
        mfu=model / (step_s * peak) if peak else None,
        hfu=hardware / (step_s * peak) if peak else None,
        definition=DEFINITION.format(dtype=dtype),
    )


def _main_dtype(rows: Rows, flops: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    codes = rows.kernels.dtype.take(rows.work.kernel)
    by_dtype = np.bincount(codes, weights=flops, minlength=len(rows.kernels.dtype.table))
    return rows.kernels.dtype.table[int(by_dtype.argmax())]
