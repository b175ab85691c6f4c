"""What to try on a workload, and what is predicted of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import ON_REQUEST
from gpuscope.advice.results import Advice, Forecast, Objective, Trial
from gpuscope.advice.search import Wanted
from gpuscope.advice.types import Case, Seen
from gpuscope.errors import GpuscopeError, InvalidValueError
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.change import Change
    from gpuscope.advice.host_pace import HostBench
    from gpuscope.measure.accelerator import Accelerator
    from gpuscope.program.workload import WorkloadOptions

__all__ = ["Asked", "Candidates", "KnownChanges", "find_candidates", "in_order",
           "with_unforeseen", "work_of"]  # fmt: skip

Names = tuple[str, ...]
Say = Callable[[str], None]

USUAL_ORDER = (
    "tf32", "bf16-autocast", "lazy-item", "sdpa", "channels-last", "cudnn-benchmark",
    "fused-optimizer", "pin-memory", "async-copies", "compile",
)  # fmt: skip
"""Tried in this order where nothing can be predicted: by the gain that experience gives them (the
measured ladders in `benchmarks/ladders`)."""

_STAND_IN = "h200"
"""Predicted for, where the real device is not in the catalogue: only to find what applies."""

_NO_FORECAST = Words("Nothing is predicted for this device.", "该设备没有预测。")


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
    notes: tuple[Words, ...] = ()
    cheap: Callable[[Names], bool] = lambda names: True

    def shown(self, trial: Trial) -> Trial:
        """A trial without predictions that are for another device."""
        if self.told:
            return trial
        untried = trial.outcome == "skipped" and not trial.purpose
        why = Words("", "") if untried else trial.why
        return replace(trial, forecast=None, expected=None, why=why)


class KnownChanges:
    """What the search has to know of registered changes."""

    def conflict(self, one: str, other: str) -> bool:
        """Whether two changes cannot go together."""
        a, b = _find(one), _find(other)
        return one != other and (other in a.excludes or one in b.excludes)

    def compiles(self, name: str) -> bool:
        """Whether it compiles or records, which takes long."""
        return _find(name).compiles


def find_candidates(
    workload: Any, asked: Asked, accelerator: Accelerator, say: Say = lambda text: None,
    host: HostBench | None = None,
) -> Candidates:  # fmt: skip
    """Predict every change, and the best combination.

    Args:
        workload: what `Forecaster` takes.
        asked: see `Asked`.
        accelerator: the device that runs.
        say: told what is being done.
        host: measures this machine's host where predictions are for it; None: the catalogue's.

    Raises:
        UnknownNameError: a change, a numerics or a device is not known.
        InputFileError: the advice cannot be read, or is of something else.
    """
    from gpuscope.advice.registry import changes, find

    for name in (*asked.only, *asked.without):
        find(name)
    able = [c for c in changes() if accelerator.is_gpu or not c.needs_gpu]
    able = [c for c in able if c.name not in asked.without]
    able = [c for c in able if not asked.only or c.name in asked.only]
    if asked.advice is not None:
        return _kept(workload, able, asked, accelerator)
    try:
        return _predicted(workload, able, asked, accelerator, say, host)
    except GpuscopeError as error:
        if asked.on is not None or type(error).__name__ == "UnknownNameError":
            raise
        reason = " ".join(part for part in (error.what, error.why) if part)
        why = Words(f"It cannot be predicted, so trials go by experience: {reason}",
                    f"无法预测，按经验次序试验：{reason}")  # fmt: skip
        return _unpredicted(able, asked, why)


def _predicted(
    workload: Any, able: Sequence[Change], asked: Asked, accelerator: Accelerator, say: Say,
    host: HostBench | None,
) -> Candidates:  # fmt: skip
    from gpuscope.advice.combining import advice_of, allowed, check_names
    from gpuscope.advice.forecasting import Forecaster
    from gpuscope.advice.workers import processes_here

    check_names(asked.allow, asked.only, asked.without)  # before anything that takes long
    on = _predict_on(asked, accelerator)
    pace = None
    if host is not None and on is not None and asked.on is None:
        pace = host.pace(accelerator, on)
    forecaster = Forecaster(
        workload, on or _STAND_IN, options=asked.options, objective=asked.objective, say=say,
        calibration=pace.calibration if pace is not None else None, processes=processes_here(),
    )  # fmt: skip
    names = [change.name for change in able]
    with forecaster, _one_thread():
        advice = advice_of(
            forecaster, names, allow=asked.allow, only=asked.only, without=asked.without, say=say
        )
    case = advice.case
    fixed = {c.name for c in able if c.work_factor(case) == 1}
    singles = tuple(
        f
        for f in advice.singles
        if f.names[0] in fixed and allowed(f.names[0], case, (*asked.allow, *asked.only))
    )
    path = with_unforeseen(tuple(n for n in in_order(advice.path) if n in fixed), singles, case)
    told = on is not None
    if not told:  # what little a GPU would gain says nothing here: all that applies is tried
        path = _free([f.names[0] for f in singles if f.effect not in ("fails", "does not fit")])
    rules = KnownChanges()

    def cheap(names: Names) -> bool:
        return forecaster.known(names) or not any(rules.compiles(n) for n in names)

    unit, per_step = work_of(case.run.samples, case.run.tokens)
    notes = (pace.note,) if pace is not None else () if told else (_NO_FORECAST,)
    return Candidates(
        Wanted(path, singles, alone=asked.alone), forecaster.forecast, advice if told else None,
        case.seen, told, unit, per_step, notes, cheap,
    )  # fmt: skip


def _kept(
    workload: Any, able: Sequence[Change], asked: Asked, accelerator: Accelerator
) -> Candidates:
    """From forecasts that were made before: nothing is captured or predicted here."""
    from gpuscope import api
    from gpuscope.advice.forecast_store import advice_of_target, read_advice
    from gpuscope.advice.locating import locate

    assert asked.advice is not None
    on = _predict_on(asked, accelerator)
    if on is None:
        raise InvalidValueError(
            f"Advice is for a device of the catalogue, which {accelerator.name} is not.", "",
            "Leave out --advice, or say what to predict for: --on h200",
        )  # fmt: skip
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
        Wanted(path, singles, alone=asked.alone), forecast, None, kept.seen, True,
        kept.unit, kept.per_step,
    )  # fmt: skip


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


def _unpredicted(able: Sequence[Change], asked: Asked, why: Words) -> Candidates:
    """The usual changes in their usual order; with `only`, those."""
    names = [c.name for c in able]
    usual = [n for n in USUAL_ORDER if n in names]
    wanted = [n for n in asked.only if n in names] or usual
    told = {*asked.allow, *asked.only}
    wanted = [n for n in wanted if n in told or _find(n).numerics not in {*ON_REQUEST} - told]
    singles = tuple(Forecast((n,), "little", Words("", "")) for n in wanted)
    return Candidates(
        Wanted(_free(wanted), singles, alone=asked.alone), lambda names: None, told=False,
        notes=(why,),
    )  # fmt: skip


def with_unforeseen(path: Names, singles: Sequence[Forecast], case: Case) -> Names:
    """The path, and what goes with it whose gain no prediction knows.

    Args:
        path: names of the predicted best combination.
        singles: what may be tried.
        case: the workload.
    """
    rules, found = KnownChanges(), list(path)
    for single in singles:
        name = single.names[0]
        apart = name in found or any(rules.conflict(name, other) for other in found)
        if single.run is not None and not apart and _find(name).unforeseen(case):
            found.append(name)
    return tuple(found)


def in_order(path: Iterable[Forecast]) -> Names:
    """Names in the order in which the combination was built up."""
    order: list[str] = []
    for forecast in path:
        order += [n for n in forecast.names if n not in order]
        order = [n for n in order if n in forecast.names]
    return tuple(order)


def _free(names: Sequence[str]) -> Names:
    """As many as go together, the first ones first."""
    rules, found = KnownChanges(), list[str]()
    for name in names:
        if not any(rules.conflict(name, other) for other in found):
            found.append(name)
    return tuple(found)


def work_of(samples: int | None, tokens: int | None) -> tuple[str, int | None]:
    """Unit and amount of a step's work; ("", None) where unknown."""
    if tokens:
        return "tokens", tokens
    return ("samples", samples) if samples else ("", None)


def _find(name: str) -> Change:
    from gpuscope.advice.registry import find

    return find(name)
