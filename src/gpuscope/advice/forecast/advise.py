"""`gs.advise`: what to change in a workload, and what not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from gpuscope import api
from gpuscope.advice.forecast.combinations import advice_of
from gpuscope.advice.forecast.forecaster import Forecaster
from gpuscope.advice.forecast.saving import keep_advice
from gpuscope.advice.registry import changes
from gpuscope.advice.results import Advice, Objective
from gpuscope.capturing import Workload
from gpuscope.program.workload import WorkloadOptions

__all__ = ["advise"]

Say = Callable[[str], None]


def advise(
    workload: Workload,
    on: api.Target = "h200",
    *,
    options: WorkloadOptions | None = None,
    calibration: api.Own | None = None,
    objective: Objective = "time",
    allow: Collection[str] = (),
    only: Collection[str] = (),
    without: Collection[str] = (),
    on_progress: Say = lambda text: None,
    processes: int = 1,
    save: str | Path | None = None,
) -> Advice:
    """What to change in a workload, in order, and what not; predicted, nothing is run.

    Args:
        workload, on, options, calibration, objective, on_progress, processes: see `Forecaster`.
        allow: numerics that are not tried unless asked for: fp8, int8, int4, recipe.
        only: consider these changes alone; () for all.
        without: leave these out.
        save: a file for all forecasts, so that `gpuscope.optimize(advice=...)` need not predict.

    Raises:
        UnknownNameError: a change or a numerics is not known.
        InputFileError: `save` cannot be written.
        GpuscopeError: as `gpuscope.predict`, from the workload as it stands.
    """
    names = [change.name for change in changes()]
    with Forecaster(
        workload,
        on,
        options=options,
        calibration=calibration,
        objective=objective,
        say=on_progress,
        processes=processes,
    ) as forecaster:
        advice = advice_of(
            forecaster, names, allow=allow, only=only, without=without, say=on_progress
        )
        if save is not None:
            keep_advice(save, workload, forecaster, advice, options, tuple(allow), tuple(only))
    return advice
