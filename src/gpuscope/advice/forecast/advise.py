"""`gs.advise`: what to change in a workload, and what not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from gpuscope import api
from gpuscope.advice.doors import CALLED
from gpuscope.advice.forecast.combinations import advice_of
from gpuscope.advice.forecast.forecaster import Forecaster, Found
from gpuscope.advice.forecast.saving import keep_advice
from gpuscope.advice.registry import changes, find
from gpuscope.advice.results import Advice, Objective
from gpuscope.advice.types import Door
from gpuscope.capturing import Workload
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
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
    on_forecast: Found = lambda forecast: None,
    processes: int = 1,
    save: str | Path | None = None,
) -> Advice:
    """What to change in a workload, in order, and what not; predicted, nothing is run.

    Args:
        workload, on, options, calibration, objective, processes: see `Forecaster`.
        on_progress, on_forecast: its `say` and `found`.
        allow: numerics that are not tried unless asked for: fp8, int8, int4, recipe.
        only: consider these changes alone; () for all.
        without: leave these out.
        save: a file for all forecasts, so that `gpuscope.optimize(advice=...)` need not predict.

    Raises:
        UnknownNameError: a change or a numerics is not known.
        InputFileError: `save` cannot be written.
        InvalidValueError: a change of `only` is for other programs; `save` for what `optimize`
            cannot run.
        GpuscopeError: as `gpuscope.predict`, from the workload as it stands.
    """
    with Forecaster(
        workload,
        on,
        options=options,
        calibration=calibration,
        objective=objective,
        say=on_progress,
        found=on_forecast,
        processes=processes,
    ) as forecaster:
        names = [change.name for change in changes() if change.door == forecaster.door]
        _check_door(forecaster.door, only, save)
        advice = advice_of(
            forecaster, names, allow=allow, only=only, without=without, say=on_progress
        )
        if save is not None:
            keep_advice(save, workload, forecaster, advice, options, tuple(allow), tuple(only))
    return advice


def _check_door(door: Door, only: Collection[str], save: str | Path | None) -> None:
    for name in only:
        own = find(name).door
        if own != door:
            raise InvalidValueError(
                Text("'{name}' is not for {programs}.", name=name, programs=CALLED[door]),
                Text("It is for {programs}.", programs=CALLED[own]),
                Text("Type: gpuscope advise --list"),
            )
    if save is not None and door != "torch":
        raise InvalidValueError(
            Text("Forecasts of {programs} are not kept.", programs=CALLED[door]),
            Text("gpuscope optimize, which would read them, runs PyTorch code."),
            Text("Leave out --save; --json and --output keep the advice."),
        )
