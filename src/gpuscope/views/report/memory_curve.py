"""Memory over the step by what it holds, for the page's curve; of predicted runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuscope.run import Run
from gpuscope.timeline import simulate_memory
from gpuscope.timeline.memory import point_times_ns
from gpuscope.timeline.types import Ints

POINTS = 500
"""Most points of the curve: about one for two pixels of a page."""


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """Allocated memory by category over one step.

    Attributes:
        time_ns: of each point, on the timeline's clock.
        categories: what the memory holds, most at the peak first.
        allocated_bytes: for each category its curve; they add up to the allocated memory.
    """

    time_ns: tuple[int, ...]
    categories: tuple[str, ...]
    allocated_bytes: tuple[tuple[int, ...], ...]


def memory_curve(run: Run) -> MemoryCurve | None:
    """Return the memory of a predicted run by category; None where no program says what it holds.

    Of a job it is that of the fullest rank, as all the run's memory is.

    Where the step has more points than can be drawn, each stretch of time keeps the point with
    most memory, so that the peak stays what it is.
    """
    basis = run.basis
    holder = basis.holder if basis is not None and basis.holder is not None else run.program
    if holder is None or not holder.storages:
        return None
    story = run.analysis.memory
    trace = simulate_memory(holder, capacity_bytes=story.capacity_bytes if story else None)
    time_ns = point_times_ns(run.timeline, trace, basis.holder_op if basis is not None else 0)
    keep = _highest(time_ns, trace.allocated_bytes)
    return MemoryCurve(
        tuple(time_ns[keep].tolist()),
        tuple(category for category, _ in trace.by_category),
        tuple(tuple(curve[keep].tolist()) for _, curve in trace.by_category),
    )


def _highest(time_ns: Ints, value: Ints) -> Ints:
    """Rows to keep: of each stretch of time the one with the highest value, the first of equals."""
    if len(time_ns) <= POINTS:
        return np.arange(len(time_ns), dtype=np.int64)
    span = max(1, int(time_ns[-1] - time_ns[0]))
    stretch = (time_ns - time_ns[0]) * (POINTS - 1) // span
    order = np.lexsort((-value, stretch))
    first = np.concatenate(([True], np.diff(stretch[order]) > 0))
    return np.sort(order[first])
