"""Launches that were counted, beside the kernels of a predicted run or a recording."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np

from gpuscope.analysis.symbols import kernel_family
from gpuscope.cost.types import Kernel
from gpuscope.explanation.nsight_compute.types import Counted
from gpuscope.run import Run
from gpuscope.timeline.types import EVENT_KINDS

MOST = 4000
"""Launches that are matched: the search is quadratic."""


def kernels_of(run: Run) -> list[Kernel]:
    """The kernels of a run's first rank in the order that the device ran them."""
    events = run.timeline.events
    wanted = (events.kind == EVENT_KINDS.index("kernel")) & (events.kernel >= 0)
    lanes = run.timeline.lanes
    first = min((lane.rank for lane in lanes), default=0)
    own = np.array([lane.rank == first for lane in lanes], bool)
    rows = np.flatnonzero(wanted & own[events.lane]) if len(lanes) else np.flatnonzero(wanted)
    order = rows[np.argsort(events.start_ns[rows], kind="stable")]
    return [run.timeline.kernels[at] for at in events.kernel[order].tolist()]


def beside(launches: Sequence[Counted], kernels: Sequence[Kernel]) -> list[Kernel | None]:
    """Return the counterpart of each launch, None where there is none.

    Both lists are in the order of the program: the longest parts in which family and blocks agree
    are taken for the same, then, between them, those whose family agrees.
    """
    found: list[Kernel | None] = [None] * len(launches)
    if not launches or not kernels:
        return found
    sorts = [kernel_family(launch.symbol) for launch in launches[:MOST]]
    kinds = [str(kernel.kind) for kernel in kernels[:MOST]]
    exact = [(sort, _blocks(launch.grid)) for sort, launch in zip(sorts, launches, strict=False)]
    modelled = [(kind, kernel.grid) for kind, kernel in zip(kinds, kernels, strict=False)]
    at, there = 0, 0
    matcher = difflib.SequenceMatcher(None, exact, modelled, autojunk=False)
    for mine, theirs, length in matcher.get_matching_blocks():
        between = difflib.SequenceMatcher(None, sorts[at:mine], kinds[there:theirs], autojunk=False)
        for a, b, n in between.get_matching_blocks():
            for i in range(n):
                found[at + a + i] = kernels[there + b + i]
        for i in range(length):
            found[mine + i] = kernels[theirs + i]
        at, there = mine + length, theirs + length
    return found


def _blocks(grid: tuple[int, int, int] | None) -> int | None:
    return None if grid is None else grid[0] * grid[1] * grid[2]
