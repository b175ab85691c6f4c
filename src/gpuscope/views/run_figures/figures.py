"""Which figures a run has; one that has no data is left out."""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.document.blocks import Block
from gpuscope.run import Run
from gpuscope.views.run_figures.account import account
from gpuscope.views.run_figures.lanes import lanes
from gpuscope.views.run_figures.memory import at_peak, curve
from gpuscope.views.run_figures.modules import modules
from gpuscope.views.run_figures.roofline import roofline
from gpuscope.views.run_figures.shares import classes, families
from gpuscope.views.run_figures.waves import waves

_OF_ONE = (classes, account, families, lanes, roofline, curve, at_peak, modules, waves)


def run_figures(run: Run) -> tuple[Block, ...]:
    """Return the figures of one run, predicted or measured.

    The step by class, its account, by kernel family, its lanes over time, the roofline, memory over
    the step and at its peak, the model's parts, and the waves of the longest kernels.
    """
    found = (figure(run) for figure in _OF_ONE)
    return tuple(figure for figure in found if figure is not None)


def runs_figures(runs: Sequence[Run]) -> tuple[Block, ...]:
    """Return the figures of several runs side by side; of one run, its own."""
    if len(runs) == 1:
        return run_figures(runs[0])
    from gpuscope.views.run_figures.side_by_side import beside  # several runs alone need it

    return beside(runs)


def sweep_figures(field: str, values: Sequence[float], runs: Sequence[Run]) -> tuple[Block, ...]:
    """Return the figures of a sweep.

    Args:
        field: what was varied.
        values: its points.
        runs: one a point.
    """
    from gpuscope.views.run_figures.side_by_side import sweep

    return sweep(field, values, runs)
