"""What to try on a workload, and what is predicted of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import ON_REQUEST
from gpuscope.advice.forecast.known_changes import (
    KnownChanges,
    free_of_conflicts,
    in_order,
    with_unforeseen,
    work_of,
)
from gpuscope.advice.results import Advice, Forecast, Objective, Trial
from gpuscope.advice.trial.search import Wanted
from gpuscope.advice.types import Seen
from gpuscope.document.text import Text, verbatim
from gpuscope.errors import GpuscopeError, InvalidValueError, UnknownNameError

if TYPE_CHECKING:
    from gpuscope.advice.change import Change
    from gpuscope.advice.trial.host_pace import HostBench
    from gpuscope.measurement.accelerator import Accelerator
    from gpuscope.program.workload import WorkloadOptions

__all__ = ["Asked", "Candidates", "find_candidates"]

Names = tuple[str, ...]
Say = Callable[[str], None]

USUAL_ORDER = (
    "bf16-autocast",
    "tf32",
    "lazy-item",
    "sdpa",
    "channels-last",
    "cudnn-benchmark",
    "fused-optimizer",
    "pin-memory",
    "async-copies",
    "compile",
)
"""Tried in this order where nothing can be predicted: by the gain that experience gives them (the
measured ladders in `benchmarks/ladders`)."""

_STAND_IN = "h200"
"""Predicted for, where the real device is not in the catalogue: only to find what applies."""

_LATE = Text("There was no time to predict it.")

_OVER_TIME = Text(
    "Predicting ended with its share of the budget: the changes that were not reached are tried by "
    "experience, with a larger --budget by what they promise."
)

_NO_FORECAST = Text("Nothing is predicted for this device.")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user asked for, as far as it concerns the choice of changes.

    Attributes:
        on: device to predict for; None for this machine's.
        objective: what "better" means.
        options: of a workload given by name.
        allow: numerics that are left alone unless asked for.
        only, without: names of changes.
        alone: also try each change by itself.
        processes: of a distributed workload.
        advice: a file that `gpuscope advise --save` wrote; None to predict here.
    """

    on: str | None = None
    objective: Objective = "time"
    options: WorkloadOptions | None = None
    allow: Collection[str] = ()
    only: Collection[str] = ()
    without: Collection[str] = ()
    alone: bool = False
    processes: int = 1
    advice: str | Path | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """What to try.

    Attributes:
        wanted: for the search.
        forecast: predicts a set of changes; gives None where that cannot be done.
        advice: what was predicted; None where nothing could be.
        seen: of the code; None where it was not captured.
        told: predictions are for the device that runs; else they only order the trials.
        unit, per_step: work of a step, where known.
        notes: for the reader.
        cheap: whether a set was predicted before, or is quick to predict.
    """

    wanted: Wanted
    forecast: Callable[[Names], Forecast | None]
    advice: Advice | None = None
    seen: Seen | None = None
    told: bool = True
    unit: str = ""
    per_step: int | None = None
    notes: tuple[Text, ...] = ()
    cheap: Callable[[Names], bool] = lambda names: True

    def shown(self, trial: Trial) -> Trial:
        """A trial without predictions that are for another device."""
        if self.told:
            return trial
        untried = trial.outcome == "skipped" and not trial.purpose
        why = verbatim("") if untried else trial.why
        return replace(trial, forecast=None, expected=None, why=why)


def find_candidates(
    workload: Any,
    asked: Asked,
    accelerator: Accelerator,
    say: Say = lambda text: None,
    host: HostBench | None = None,
    predict_s: float = inf,
) -> Candidates:
    """Predict every change, and the best combination.

    Args:
        workload: what `Forecaster` takes.
        asked: see `Asked`.
        accelerator: the device that runs.
        say: told what is being done.
        host: measures this machine's host where predictions are for it; None: the catalogue's.
        predict_s: seconds after which no further change is predicted; the rest is tried by
            experience.

    Raises:
        UnknownNameError: a change, a numerics or a device is not known.
        InputFileError: the advice cannot be read, or is of something else.
    """
    from gpuscope.advice.registry import changes, find

    for name in (*asked.only, *asked.without):
        find(name)
    able = [c for c in changes() if c.door == "torch"]
    able = [c for c in able if accelerator.is_gpu or not c.needs_gpu]
    able = [c for c in able if c.name not in asked.without]
    able = [c for c in able if not asked.only or c.name in asked.only]
    if asked.advice is not None:
        return _kept(workload, able, asked, accelerator)
    try:
        return _predicted(workload, able, asked, accelerator, say, host, predict_s)
    except GpuscopeError as error:
        if asked.on is not None or isinstance(error, UnknownNameError):
            raise
        reason = " ".join(part for part in (error.what, error.why) if part)
        why = Text("It cannot be predicted, so trials go by experience: {reason}", reason=reason)
        return _unpredicted(able, asked, why)


def _predicted(
    workload: Any,
    able: Sequence[Change],
    asked: Asked,
    accelerator: Accelerator,
    say: Say,
    host: HostBench | None,
    predict_s: float,
) -> Candidates:
    from gpuscope.advice.forecast.combinations import advice_of, allowed, check_names
    from gpuscope.advice.forecast.forecaster import Forecaster
    from gpuscope.advice.forecast.workers import processes_here

    check_names(asked.allow, asked.only, asked.without)  # before anything that takes long
    on = _predict_on(asked, accelerator)
    pace = None
    if host is not None and on is not None and asked.on is None:
        pace = host.pace(accelerator, on)
    end_s = time.monotonic() + predict_s

    def over() -> bool:
        return time.monotonic() >= end_s

    forecaster = Forecaster(
        workload,
        on or _STAND_IN,
        options=asked.options,
        objective=asked.objective,
        say=say,
        calibration=pace.calibration if pace is not None else None,
        processes=processes_here(),
    )
    names = sorted((c.name for c in able), key=lambda n: n not in USUAL_ORDER)
    kinds = {"allow": asked.allow, "only": asked.only, "without": asked.without}
    with forecaster, _one_thread():
        advice = advice_of(forecaster, names, **kinds, say=say, over=over)
    case = advice.case
    fixed = {c.name for c in able if c.work_factor(case) == 1}
    singles = tuple(
        f
        for f in advice.singles
        if f.names[0] in fixed and allowed(f.names[0], case, (*asked.allow, *asked.only))
    )
    path = with_unforeseen(tuple(n for n in in_order(advice.path) if n in fixed), singles, case)
    given = on is not None
    if not given:  # what little a GPU would gain says nothing here: all that applies is tried
        path = free_of_conflicts(
            [f.names[0] for f in singles if f.effect not in ("fails", "does not fit")]
        )
    late = _unreached(able, asked, advice)
    if over():  # the combination was not finished
        helpful = [f.names[0] for f in singles if f.effect == "helps"]
        usual = [n for n in USUAL_ORDER if n in late]
        path = free_of_conflicts(list(dict.fromkeys((*path, *helpful, *usual))))
    singles += tuple(Forecast((n,), "little", _LATE) for n in late)
    rules = KnownChanges()

    def forecast(names: Names) -> Forecast | None:
        return None if over() and not forecaster.known(names) else forecaster.forecast(names)

    def cheap(names: Names) -> bool:
        return forecaster.known(names) or not any(rules.compiles(n) for n in names)

    unit, per_step = work_of(case.run.samples, case.run.tokens)
    notes: tuple[Text, ...] = (pace.note,) if pace is not None else () if given else (_NO_FORECAST,)
    if late:
        notes += (_OVER_TIME,)
    return Candidates(
        Wanted(path, singles, alone=asked.alone),
        forecast,
        advice if given else None,
        case.seen,
        given,
        unit,
        per_step,
        notes,
        cheap,
    )


def _unreached(able: Sequence[Change], asked: Asked, advice: Advice) -> tuple[str, ...]:
    """Changes that fit, and that there was no time to predict; those that change the recipe, or
    what is computed, are not among them unless they were asked for."""
    from gpuscope.advice.forecast.combinations import allowed

    told = {f.names[0] for f in advice.singles} | {r.name for r in advice.refused}
    given = (*asked.allow, *asked.only)
    return tuple(
        c.name
        for c in able
        if c.name not in told
        and c.work_factor(advice.case) == 1
        and allowed(c.name, advice.case, given)
    )


def _kept(
    workload: Any, able: Sequence[Change], asked: Asked, accelerator: Accelerator
) -> Candidates:
    """From forecasts that were made before: nothing is captured or predicted here."""
    from gpuscope import api
    from gpuscope.advice.forecast.store import advice_of_target, read_advice
    from gpuscope.advice.source.locating import locate

    assert asked.advice is not None
    on = _predict_on(asked, accelerator)
    if on is None:
        raise InvalidValueError(
            Text(
                "Advice is for a device of the catalogue, which {accelerator} is not.",
                accelerator=accelerator.name,
            ),
            "",
            Text("Leave out --advice, or say what to predict for: --on h200"),
        )
    cluster, located = api.resolve_target(on), locate(workload, asked.options)
    of = advice_of_target(
        located, cluster.device.id, cluster.n_devices, asked.objective, tuple(asked.allow)
    )
    kept = read_advice(asked.advice, of, located.file)
    names = {change.name for change in able} & {*kept.free, *asked.only}
    singles = tuple(f for f in kept.singles if f.names[0] in names)
    path = tuple(n for n in kept.path if n in names)
    forecast = kept.forecasting()
    return Candidates(
        Wanted(path, singles, alone=asked.alone),
        forecast,
        None,
        kept.seen,
        True,
        kept.unit,
        kept.per_step,
    )


def _predict_on(asked: Asked, accelerator: Accelerator) -> str | None:
    """What is predicted for: what was asked for, else this machine; None where it is unknown."""
    on = asked.on or _this_device(accelerator)
    if asked.on is None and on is not None and asked.processes > 1:
        return f"{asked.processes}x{on}"
    return on


@contextmanager
def _one_thread() -> Iterator[None]:
    """Captures compute nothing: threads of torch would only be in each other's way."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _this_device(accelerator: Accelerator) -> str | None:
    """This machine as it was benched, else the catalogue's device; None where it has none."""
    from gpuscope.hardware.own import this_target

    device = accelerator.catalogue_device()
    try:
        if device is not None and this_target("this")[0] == device.id:
            return "this"
    except GpuscopeError:
        pass  # it was never benched
    return device.id if device is not None else None


def _unpredicted(able: Sequence[Change], asked: Asked, why: Text) -> Candidates:
    """The usual changes in their usual order; with `only`, those."""
    names = [c.name for c in able]
    usual = [n for n in USUAL_ORDER if n in names]
    wanted = [n for n in asked.only if n in names] or usual
    known = {*asked.allow, *asked.only}
    wanted = [n for n in wanted if n in known or _find(n).numerics not in {*ON_REQUEST} - known]
    singles = tuple(Forecast((n,), "little", verbatim("")) for n in wanted)
    return Candidates(
        Wanted(free_of_conflicts(wanted), singles, alone=asked.alone),
        lambda names: None,
        told=False,
        notes=(why,),
    )


def _find(name: str) -> Change:
    from gpuscope.advice.registry import find

    return find(name)
