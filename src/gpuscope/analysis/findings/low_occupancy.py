"""Recorded kernels with fewer blocks than the device has multiprocessors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.named import largest, take_grid
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.window import COMMUNICATION, KERNEL
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text
from gpuscope.timeline.types import Ints

LEAST_SHARE = 0.05
"""A loss below this share of the step is not worth a sentence."""

SHORTEST_S = 5e-6
"""Shorter kernels are limited by their launch, whatever their grid."""


@finding("low_occupancy", needs="time", order=180)
def low_occupancy(facts: Facts) -> Finding | None:
    """Applies when kernels that leave multiprocessors empty lose a twentieth of the step.

    Gain: time x the share of multiprocessors that hold no block, of the kernel itself or of others
    that run beside it, as if the same work ran on all of them; never below the roofline. Only of
    recordings: there the grid is a fact, and a predicted one is the model's guess at what the
    library does.

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
    share = Percent(facts.share(time_s))
    lost = lost_there = Text("")
    if not facts.replayed:
        lost = Text("; the empty ones are worth {total}", total=Seconds(total))
        lost_there = Text(", {lost}", lost=Seconds(worst_s))
    return Finding(
        kind="low_occupancy",
        title=Text(
            "Kernels with too few blocks for the device take {share} of the step.", share=share
        ),
        evidence=Text(
            "{count} kernels fill fewer than the {units} {label}s, with all that runs beside them, "
            "and take {time}{lost}, most of it in {worst} ({blocks} blocks{lost_there}).",
            count=count,
            units=units,
            label=label,
            time=Seconds(time_s),
            lost=lost,
            worst=worst,
            blocks=blocks,
            lost_there=lost_there,
        ),
        max_gain_s=None if facts.replayed else total,
        about=facts.about(rows, explains_s=total),
        hint=Text(
            "Give them more to do at once: a larger batch, several small calls joined into one "
            "(batched or grouped products), or other work beside them on a second stream."
        ),
    )


def empty_share(
    start_ns: Ints, end_ns: Ints, taken: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the share of the device that is empty while each event runs, mean over its time.

    Args:
        start_ns, end_ns: the events.
        taken: share of the multiprocessors that each of them holds, 0 to 1. Events that run at one
            time hold theirs beside each other.
    """
    if len(start_ns) == 0:
        return np.zeros(0)
    time = np.concatenate((start_ns, end_ns))
    change = np.concatenate((taken, -taken))
    order = np.argsort(time, kind="stable")
    time = time[order]
    empty = np.clip(1.0 - np.cumsum(change[order]), 0.0, 1.0)
    until = np.concatenate(([0.0], np.cumsum(empty[:-1] * np.diff(time))))
    at = until[np.searchsorted(time, end_ns)] - until[np.searchsorted(time, start_ns)]
    return np.asarray(at / np.maximum(end_ns - start_ns, 1), np.float64)


def _losses(facts: Facts, units: int) -> npt.NDArray[np.float64]:
    """Seconds that each event loses to empty multiprocessors, per step."""
    work = facts.rows.work
    grid = take_grid(facts)
    few = (grid > 0) & (grid < units) & (work.kind == KERNEL)
    few &= work.end_ns - work.start_ns > SHORTEST_S * 1e9
    time_s = facts.rows.time_s
    room = np.maximum(time_s - np.nan_to_num(facts.rows.best_s, nan=0.0), 0.0)
    # A kernel whose grid is not recorded may hold all of them.
    taken = np.where(grid > 0, np.minimum(grid / units, 1.0), 1.0)
    on_units = (work.kind == KERNEL) | (work.kind == COMMUNICATION)
    empty = empty_share(work.start_ns, work.end_ns, np.where(on_units, taken, 0.0))
    loss = np.minimum(time_s * empty, room)
    return np.asarray(np.where(few, loss, 0.0), np.float64)
