"""Kernels whose last wave leaves much of the machine empty."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.columns import take
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.grouping import label
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text

LEAST_SHARE = 0.05
"""A loss below this share of the step is not worth a sentence."""


@finding("poor_shapes", needs="time", order=130)
def tail_waves(facts: Facts) -> Finding | None:
    """Applies when compute-bound kernels lose a twentieth of the step to partly filled waves.

    Gain: the sum over those kernels of time x (1 - waves / ceil(waves)), as if every block slot
    were filled; and never below the roofline.
    """
    loss = _losses(facts)
    total = float(loss.sum())
    if facts.share(total) < LEAST_SHARE:
        return None
    worst, worst_loss = _worst(facts, loss)
    count = facts.count_of(loss > 0)
    share = Percent(facts.share(total))
    return Finding(
        kind="poor_shapes",
        title=Text("Partly filled waves waste {share} of the step.", share=share),
        evidence=Text(
            "{count} compute-bound kernels leave block slots empty, worth {total}; most of it in "
            "{worst} ({worst_loss}).",
            count=count,
            total=Seconds(total),
            worst=worst,
            worst_loss=Seconds(worst_loss),
        ),
        max_gain_s=total,
        hint=Text(
            "Change batch, sequence or hidden size so that the number of tiles is just below a "
            "multiple of what the device runs at once."
        ),
        about=facts.about(loss > 0, explains_s=total),
    )


def _losses(facts: Facts) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Seconds that each event loses to its tail, per step."""
    waves = take(facts.rows.kernels.waves, facts.rows.work.kernel)
    if facts.trust is not None:
        # Less than one wave of a recording may still reach every multiprocessor; those that do
        # not are another finding's (see `low_occupancy`).
        waves = np.where(waves < 1.0, 0.0, waves)
    full = np.ceil(waves)
    tail = 1.0 - np.divide(waves, full, out=np.ones_like(waves), where=full > 0)
    room = facts.rows.time_s - np.nan_to_num(facts.rows.best_s, nan=0.0)
    loss = np.minimum(facts.rows.time_s * tail, np.maximum(room, 0.0))
    return np.where(facts.of_class("compute-bound"), loss, 0.0)


def _worst(
    facts: Facts, loss: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
) -> tuple[str, float]:
    """Name the group of equal kernels that loses most, with its loss."""
    kernels = facts.rows.kernels.kernels
    by_name: dict[str, float] = {}
    for event in np.flatnonzero(loss):
        kernel, op = int(facts.rows.work.kernel[event]), int(facts.rows.work.op[event])
        text = label(kernels[kernel], facts.rows.ops.ops[op] if op >= 0 else None)
        by_name[text] = by_name.get(text, 0.0) + float(loss[event])
    worst = max(by_name, key=lambda text: by_name[text])
    return worst, by_name[worst]
