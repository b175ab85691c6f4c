"""Advice from a recording alone: what its timeline shows, as bounds.

The code cannot be run again under changes, so nothing can be simulated: a change says from the
timeline how much it might save a step (`Change.saving_s`), at least and at most. Combinations are
not given: bounds neither add up nor exclude each other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from gpuscope import api
from gpuscope.advice.change import Change
from gpuscope.advice.forecast.forecaster import NOISE
from gpuscope.advice.registry import changes, find
from gpuscope.advice.results import Advice, Effect, Forecast, Refusal
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text, sentences, verbatim
from gpuscope.errors import GpuscopeError, InvalidValueError
from gpuscope.hardware import Cluster
from gpuscope.run import Run

__all__ = ["advise_run"]


def advise_run(
    run: Run, on: str | None = None, *, only: Collection[str] = (), without: Collection[str] = ()
) -> Advice:
    """What a recorded or measured step lets expect of changes.

    Forecasts have no speedup but bounds, `low` and `high`; `Advice.path` is empty.

    Args:
        run: loaded or measured.
        on: the device it ran on, where the recording does not say.
        only, without: names of changes to consider alone, or to leave out.

    Raises:
        InvalidValueError: neither the recording nor `on` says the device; or there is no step.
        UnknownNameError: there is no such change or device.
    """
    case = ChangeCase(run, _cluster(run, on))
    if not run.step_time_s > 0:
        raise InvalidValueError(
            Text("The recording has no step time."),
            Text("Without it a gain has no scale."),
            Text("Record whole steps: gpuscope profile script.py"),
        )
    for name in (*only, *without):
        find(name)
    singles, refused = [], []
    for change in changes():
        if change.door != "torch":
            continue
        if (only and change.name not in only) or change.name in without:
            continue
        fit, forecast = _one(change, case)
        if forecast is not None:
            singles.append(forecast)
        else:
            refused.append(Refusal(change.name, fit))
    singles.sort(key=lambda f: (-(f.low or 0.0), -(f.high or 0.0), f.names))
    singles = _each_time_once(singles)
    note = Text(
        "A recording holds no code: gains are bounds from its timeline, each change by itself."
    )
    return Advice(case, "time", tuple(singles), (), tuple(refused), (note,))


def _each_time_once(singles: Sequence[Forecast]) -> list[Forecast]:
    """Each forecast; that of a change which would save the same time as one before it says so."""
    first: dict[str, str] = {}
    told = []
    for single in singles:
        name = single.names[0]
        other = first.setdefault(find(name).saves or name, name)
        if other != name:
            same = Text(
                "This is the same time as that of {other}: both together save no more than the "
                "larger.",
                other=other,
            )
            single = replace(single, why=sentences(single.why, same))
        told.append(single)
    return told


def _cluster(run: Run, on: str | None) -> Cluster:
    device = on or run.device_id
    if not device:
        raise InvalidValueError(
            Text("The recording does not say what it ran on."),
            Text("Advice depends on the device."),
            Text("Add for example: --on h200"),
        )
    if on is None and run.world_size > 1:
        with suppress(GpuscopeError):  # as many as no cluster of this device has
            return api.resolve_target(f"{run.world_size}x{device}")
    return api.resolve_target(device)


def _one(change: Change, case: ChangeCase) -> tuple[Fit, Forecast | None]:
    """Whether it fits the recording, and its bounds where the timeline gives some."""
    try:
        fit = change.fits(case)
        saved = change.saving_s(case.run, case) if fit.applies else None
    except Exception as error:  # one faulty check must not end the others
        why = f"{type(error).__name__}: {error}"
        return Fit(False, verbatim(why), relevant=False), None
    if saved is None:
        if fit.applies:
            unknown = Text("A recording alone does not show what it would gain.")
            fit = Fit(False, unknown, relevant=False)
        return fit, None
    step_s = case.run.step_time_s
    low_s, high_s = (min(max(0.0, s), 0.95 * step_s) for s in sorted(saved))
    effect: Effect = "helps" if low_s >= NOISE * step_s else "little"
    return fit, Forecast(
        (change.name,),
        effect,
        fit.why,
        None,
        low=step_s / (step_s - low_s),
        high=step_s / (step_s - high_s),
        price=change.price(case),
    )
