"""Recorded kernels with fewer blocks than the device has multiprocessors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.named import largest, take_grid
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.window import KERNEL
from gpuscope.analysis.wording import percent, seconds

LEAST_SHARE = 0.05
"""A loss below this share of the step is not worth a sentence."""

SHORTEST_S = 5e-6
"""Shorter kernels are limited by their launch, whatever their grid."""


@finding
def low_occupancy(facts: Facts) -> Finding | None:
    """Applies when kernels that leave multiprocessors empty lose a twentieth of the step.

    Gain: time x (1 - blocks / multiprocessors), as if the same work ran on all of them; never
    below the roofline. Only of recordings: there the grid is a fact, and a predicted one is the
    model's guess at what the library does.

    In a replayed graph neither shapes nor bytes are recorded, so no gain is claimed: products of a
    few rows read their weights, and fewer blocks than multiprocessors may be what suits them.
    """
    if facts.trust is None or facts.device is None or not facts.device.compute_units:
        return None
    loss = _losses(facts, facts.device.compute_units)
    total = float(loss.sum())
    if facts.share(total) < LEAST_SHARE:
        return None
    rows = loss > 0
    worst, worst_s, event = largest(facts, loss)
    units, blocks = facts.device.compute_units, int(take_grid(facts)[event])
    label = facts.device.compute_unit_label
    time_s, count = facts.time_of(rows), facts.count_of(rows)
    share = percent(facts.share(time_s))
    lost, lost_there = f"; the empty ones are worth {seconds(total)}", f", {seconds(worst_s)}"
    lost_zh, lost_there_zh = f"空闲部分相当于 {seconds(total)}，", f"，{seconds(worst_s)}"
    if facts.replayed:
        lost = lost_there = lost_zh = lost_there_zh = ""
    return Finding(
        kind="low_occupancy",
        title=f"Kernels with too few blocks for the device take {share} of the step.",
        evidence=f"{count} kernels fill fewer than the {units} {label}s and take "
        f"{seconds(time_s)}{lost}, most of it in {worst} ({blocks} blocks{lost_there}).",
        max_gain_s=None if facts.replayed else total,
        hint="Give them more to do at once: a larger batch, several small calls joined into one "
        "(batched or grouped products), or other work beside them on a second stream.",
        title_zh=f"线程块太少、填不满设备的内核占一步的 {share}。",
        evidence_zh=f"{count} 个内核用不满 {units} 个 {label}，共用 {seconds(time_s)}；"
        f"{lost_zh}其中最多的是 {worst}（{blocks} 个线程块{lost_there_zh}）。",
        hint_zh="让它们一次做更多：增大批量、把多个小调用合成一个（批量或分组矩阵乘），"
        "或在另一个流上同时做别的工作。",
    )


def _losses(facts: Facts, units: int) -> npt.NDArray[np.float64]:
    """Seconds that each event loses to empty multiprocessors, per step."""
    work = facts.rows.work
    grid = take_grid(facts)
    few = (grid > 0) & (grid < units) & (work.kind == KERNEL)
    few &= work.end_ns - work.start_ns > SHORTEST_S * 1e9
    time_s = facts.rows.time_s
    room = np.maximum(time_s - np.nan_to_num(facts.rows.best_s, nan=0.0), 0.0)
    loss = np.minimum(time_s * (1.0 - np.minimum(grid / units, 1.0)), room)
    return np.asarray(np.where(few, loss, 0.0), np.float64)
