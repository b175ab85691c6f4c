"""How much of the device's peak a step uses: MFU and HFU, with their definition."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.breakdown import Rows
from gpuscope.analysis.columns import Floats
from gpuscope.analysis.roofs import MATRIX_KINDS, Roofs
from gpuscope.analysis.types import Utilisation
from gpuscope.document.text import Text

REPEATED_IN_ATTENTION_BACKWARD = 1 / 5
"""Fused attention's backward pass is five matrix products, of which one computes the scores again
(Dao et al. 2022, FlashAttention, algorithm 4)."""


MAY_HOLD_FLOPS = (*sorted(MATRIX_KINDS), "fused", "other")
"""Families of kernels that may be matrix products where no model says so."""

MOST_UNMODELLED = 0.02
"""Share of a recording's busy time in such kernels above which the FLOPs are not known."""


def utilisation(rows: Rows, roofs: Roofs, step_s: float) -> Utilisation | None:
    """Return MFU and HFU of one step; None where no kernel states its FLOPs,
    or where a recording has matrix kernels whose FLOPs are not known.

    The peak is that of the dtype in which most of the FLOPs run, on the matrix units. FLOPs are
    `Kernel.flops`, which are useful ones (see `gpuscope.cost.types`); those of operators that
    checkpointing repeats, and a fifth of attention's backward pass, count as hardware FLOPs only.
    The notion of MFU is that of the PaLM
    paper (Chowdhery et al. 2022, appendix B), HFU that of Korthikanti et al. 2022.
    """
    kinds = np.array([kind in MATRIX_KINDS for kind in rows.kernels.kind.table])
    counted = kinds[rows.kernels.kind.take(rows.work.kernel)]
    flops = np.where(counted, rows.flops, 0.0) / rows.work.window.steps
    hardware = float(flops.sum())
    if hardware <= 0 or step_s <= 0:
        return None
    if rows.unmodelled_share(MAY_HOLD_FLOPS) > MOST_UNMODELLED:
        return None
    model = float((flops * (1.0 - _repeated_share(rows))).sum())
    dtype = _main_dtype(rows, flops)
    peak = roofs.peak_flops_per_s(dtype)
    return Utilisation(
        model_flops=model,
        hardware_flops=hardware,
        peak_flops_per_s=peak,
        mfu=model / (step_s * peak) if peak else None,
        hfu=hardware / (step_s * peak) if peak else None,
        definition=_definition(dtype),
    )


def _repeated_share(rows: Rows) -> Floats:
    """Share of each event's FLOPs that only repeats forward work."""
    if not rows.ops.ops:
        return np.zeros(len(rows.work))
    backward = np.array([phase == "backward" for phase in rows.ops.phase.table])
    attention = np.array([kind == "attention" for kind in rows.kernels.kind.table])
    fused = backward[rows.ops.phase.take(rows.work.op)]
    fused &= attention[rows.kernels.kind.take(rows.work.kernel)]
    again = (rows.work.op >= 0) & rows.ops.recomputed[rows.work.op]
    return np.where(again, 1.0, np.where(fused, REPEATED_IN_ATTENTION_BACKWARD, 0.0))


def _main_dtype(rows: Rows, flops: Floats) -> str:
    codes = rows.kernels.dtype.take(rows.work.kernel)
    by_dtype = np.bincount(codes, weights=flops, minlength=len(rows.kernels.dtype.table))
    return rows.kernels.dtype.table[int(by_dtype.argmax())]


def _definition(dtype: str) -> Text:
    """What the shares mean."""
    return Text(
        "Model FLOPs are those of matrix products, convolutions, attention and recurrent layers of "
        "the forward and backward pass, 2 per multiply-add; causal attention counts the half that "
        "the mask leaves; norms, activations and the optimizer do not count. MFU = model FLOPs / "
        "(step time x dense peak of {dtype}). HFU also counts forward work repeated in the "
        "backward pass: by activation checkpointing, and the attention scores that fused attention "
        "computes again.",
        dtype=dtype,
    )
