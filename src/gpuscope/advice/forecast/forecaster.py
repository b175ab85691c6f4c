"""Forecasts: what a set of changes would do to a workload, predicted without running it.

The changed code is captured as the original was, and predicted on the same machine; what two
changes do together is simulated, never added up.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from gpuscope import api
from gpuscope.advice.doors import CALLED
from gpuscope.advice.forecast.changed_programs import Captured, ChangedPrograms
from gpuscope.advice.forecast.reasons import reason
from gpuscope.advice.forecast.speedup import Costs, costs_of, speedup_interval
from gpuscope.advice.forecast.workers import Workers
from gpuscope.advice.registry import find, plan
from gpuscope.advice.results import Effect, Forecast, Objective
from gpuscope.advice.types import ChangeCase, Door, Fit, Seen
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text, sentences, verbatim
from gpuscope.errors import GpuscopeError, InvalidValueError
from gpuscope.hardware import Calibration, calibration_for
from gpuscope.prediction import predict_captured
from gpuscope.program.types import Program
from gpuscope.run import Run

if TYPE_CHECKING:
    from gpuscope.advice.change import Change
    from gpuscope.capturing import Workload
    from gpuscope.program.workload import WorkloadOptions

__all__ = ["NOISE", "Forecaster"]

NOISE = 0.01
"""Gains and losses below this share are called little: nobody would notice them."""

Say = Callable[[str], None]
Found = Callable[[Forecast], None]
Names = frozenset[str]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A workload as it stands, sent to another process.

    Attributes:
        program: its packed program; None where that has no such form.
        seen: what was seen of its code.
    """

    program: bytes | None
    seen: Seen | None


class Forecaster:
    """Predicts a workload under any set of changes; each set is captured and predicted once.

    Args:
        workload: a build function, `file.py:build`, a built-in model's name, or a captured program
            (to which only changes with a `transform` can be made).
        on: device or cluster, see `gpuscope.predict`.
        options: of a workload given by name.
        calibration: see `gpuscope.predict`.
        objective: what "better" means: time, memory, energy, or cost (time × price, so on one
            machine the same as time).
        say: told what is being done.
        found: given each forecast of one change (first of none: as it is) once it is known.
        processes: how many `prepare` may use, for a workload given by name. Others are started
            afresh, so a script that asks for more than one needs `if __name__ == "__main__":`.

    Raises:
        GpuscopeError: as `gpuscope.predict`, from the baseline, when it is first needed.
        InvalidValueError: no such objective.
    """

    def __init__(
        self,
        workload: Workload,
        on: api.Target = "h200",
        *,
        options: WorkloadOptions | None = None,
        calibration: api.Own | None = None,
        objective: Objective = "time",
        say: Say = lambda text: None,
        found: Found = lambda forecast: None,
        processes: int = 1,
    ) -> None:
        if objective not in ("time", "memory", "energy", "cost"):
            raise InvalidValueError(
                Text("There is no objective '{objective}'.", objective=objective),
                "",
                Text("Type: time, memory, energy or cost."),
            )
        self.objective: Objective = objective
        self.processes = 1
        self.cluster = api.resolve_target(on)
        self.constants = api.resolve_calibration(on, calibration) or calibration_for(
            self.cluster.device
        )
        self._say, self._found = say, found
        self._programs = ChangedPrograms(workload, self.cluster, options)
        self._forecasts: dict[Names, Forecast] = {}
        self._costs: dict[Names, Costs] = {}
        self._case: ChangeCase | None = None
        self._workers: Workers | None = None
        named = isinstance(workload, str) and isinstance(on, str)
        if processes > 1 and named and not isinstance(calibration, Calibration):
            make = functools.partial(
                Forecaster,
                workload,
                on,
                options=options,
                calibration=calibration,
                objective=objective,
            )
            self._workers, self.processes = Workers(make, processes), processes

    @property
    def door(self) -> Door:
        """What kind of changes the workload takes, see `Change.door`."""
        return self._programs.door

    @property
    def case(self) -> ChangeCase:
        """The workload as it stands: captured, predicted, seen."""
        if self._case is None:
            self._say(Text("Capturing the workload …"))
            captured = self._programs.of()
            run = api.predict(captured, self.cluster, calibration=self.constants)
            made = self._programs
            self._case = ChangeCase(
                run, self.cluster, _first(captured), made.seen, made.onnx, made.jax
            )
        return self._case

    def fit(self, name: str) -> Fit:
        """Whether a change can be made here.

        Raises:
            UnknownNameError: there is no such change.
        """
        change, case = find(name), self.case
        if change.door != self.door:
            programs = CALLED[change.door]
            return Fit(False, Text("It is for {programs}.", programs=programs), relevant=False)
        try:
            return change.fits(case)
        except Exception as error:  # one faulty check must not end the others
            why = _unexpected(error)
            return Fit(False, Text("Its own check failed ({why}).", why=why))

    def prepare(
        self, sets: Sequence[Iterable[str]], over: Callable[[], bool] = lambda: False
    ) -> None:
        """Predict several sets, which are then known; on several processes where that pays.

        Args:
            sets: of names.
            over: whether to leave it at what is known.

        Raises:
            UnknownNameError, InvalidValueError: as `forecast`.
        """
        chosen = [tuple(change.name for change in plan(names)) for names in sets]
        new = [names for names in dict.fromkeys(chosen) if not self.known(names)]
        if self._workers is not None and new:
            self._workers.forecast(
                self._captures(new), self._prepared, self._take, self._baseline, over
            )
        for names in new:
            if over():
                break
            self._prepared(names)

    def _captures(self, sets: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """The sets whose captures these are made of, but for those that are here."""
        _ = self.case
        sources = [each for names in sets for each in self._programs.sources(names)]
        missing = (each for each in dict.fromkeys(sources) if not self._programs.known(each))
        named = (tuple(change.name for change in plan(each)) for each in missing)
        return [names for names in named if not self.known(names)]

    def expect(self, sets: int) -> None:
        """Say how many sets will be asked for, so that others can start while this one begins."""
        if self._workers is not None:
            self._workers.start(sets)

    def _baseline(self) -> Baseline:
        """The workload as it stands, for another process."""
        _ = self.case
        return Baseline(self._packed(()), self._programs.seen)

    def begin_with(self, baseline: Baseline) -> None:
        """Take the workload as it stands from the process that asks; it is not captured here."""
        from gpuscope.kept import form

        if baseline.program is None:
            return
        captured = form.unpacked(baseline.program)
        self._programs.take((), captured)
        self._programs.seen = baseline.seen
        # Its findings' outcomes are for a reader: none is here.
        run = predict_captured(captured, self.cluster, self.constants, outcomes=False)
        made = self._programs
        self._case = ChangeCase(
            run, self.cluster, _first(captured), baseline.seen, made.onnx, made.jax
        )

    def answer(self, names: tuple[str, ...]) -> tuple[Forecast, bytes | None]:
        """A forecast, and the captured program for the process that asked; None if it has none."""
        return self._prepared(names), self._packed(names)

    def _packed(self, names: tuple[str, ...]) -> bytes | None:
        from gpuscope.kept import form

        try:
            return form.packed(self._programs.of(names)) if self._programs.known(names) else None
        except form.NotKeptError:
            return None

    def _prepared(self, names: Iterable[str]) -> Forecast:
        """Combinations are many; the interval is made for those that are shown."""
        chosen = tuple(names)
        return self.forecast(chosen, interval=len(chosen) == 1)

    def _take(self, names: Iterable[str], answer: tuple[Forecast, bytes | None]) -> None:
        from gpuscope.kept import form

        forecast, packed = answer
        self._note(frozenset(names), forecast)
        if packed is not None:
            self._programs.take(names, form.unpacked(packed))

    def close(self) -> None:
        """End other processes, where there are any."""
        if self._workers is not None:
            self._workers.close()

    def __enter__(self) -> Forecaster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def forecasts(self) -> tuple[Forecast, ...]:
        """All that were made until now."""
        return tuple(self._forecasts.values())

    def known(self, names: Iterable[str]) -> bool:
        """Whether this set was predicted before, so that its forecast costs nothing."""
        return frozenset(names) in self._forecasts

    def forecast(self, names: Iterable[str] = (), interval: bool = True) -> Forecast:
        """The workload with these changes made together.

        Code that fails under the changes gives the effect "fails", with the reason.

        Args:
            names: of the changes.
            interval: whether the gain's interval is needed, which takes longer; without it, the
                effect goes by the gain itself.

        Raises:
            UnknownNameError: a change is not known.
            InvalidValueError: two cannot go together.
        """
        chosen = plan(names)
        key = frozenset(change.name for change in chosen)
        if key not in self._forecasts:
            case = self.case
            if chosen:
                self._say(Text("Predicting: {c} …", c=", ".join(c.name for c in chosen)))
            self._note(key, self._made(chosen, case, interval))
        found = self._forecasts[key]
        if interval and found.low is None and found.run is not None:
            self._forecasts[key] = self._with_interval(found, found.run)
        return self._forecasts[key]

    def _note(self, key: Names, forecast: Forecast) -> None:
        self._forecasts[key] = forecast
        if len(key) < 2:
            self._found(forecast)

    def _made(self, chosen: tuple[Change, ...], case: ChangeCase, interval: bool) -> Forecast:
        names = tuple(change.name for change in chosen)
        price = _joined([change.price(case) for change in chosen])
        if not chosen:
            run = case.run
            return _forecast((), "little", Text("As it is."), run, (1.0, 1.0, 1.0), None)
        work = prod(change.work_factor(case) for change in chosen)
        try:
            captured = self._programs.of(names)
            # Nobody reads a changed step's findings: what their advice would do is not worked out.
            run = predict_captured(captured, self.cluster, self.constants, outcomes=False)
        except GpuscopeError as error:
            return Forecast(names, "fails", _failure(error), price=price)
        except Exception as error:  # a change that breaks this code must not end the others
            why = _unexpected(error)
            return Forecast(names, "fails", verbatim(why), price=price)
        speedup = case.run.step_time_s / run.step_time_s * work
        effect = self._effect(case.run, run, (speedup, speedup, speedup), work)
        why_words = _too_large(run) if effect == "does not fit" else reason(case.run, run, work)
        made = _forecast(names, effect, why_words, run, (speedup, None, None), price)
        return self._with_interval(made, run) if interval else made

    def _with_interval(self, made: Forecast, run: Run) -> Forecast:
        """The same, with how sure its gain is, and the effect by that."""
        case, work, speedup = self.case, self._work(made.names), made.speedup or 1.0
        try:
            gain = speedup_interval(self._costs_of(()), self._costs_of(made.names), work)
        except GpuscopeError as error:
            return Forecast(made.names, "fails", _failure(error), price=made.price)
        # The walk for the interval and the prediction agree; the latter also knows chance waits.
        low, high = gain[1] * speedup / gain[0], gain[2] * speedup / gain[0]
        effect = self._effect(case.run, run, (speedup, low, high), work)
        return replace(made, effect=effect, low=low, high=high)

    def _costs_of(self, names: Collection[str]) -> Costs:
        key = frozenset(names)
        if key not in self._costs:
            captured = self._programs.of(key)
            self._costs[key] = costs_of(captured, self.cluster, self.constants)
        return self._costs[key]

    def _effect(
        self, before: Run, after: Run, gain: tuple[float, float, float], work: float
    ) -> Effect:
        if after.fits is False:
            return "does not fit"
        if before.fits is False:
            return "helps"
        if self.objective in ("time", "cost"):
            point, low, high = gain
        else:
            point = low = high = _ratio(before, after, self.objective, work)
        if low > 1 and point >= 1 + NOISE:
            return "helps"
        if high < 1 and point <= 1 - NOISE:
            return "hurts"
        return "little"

    def better(self, forecast: Forecast, than: Forecast) -> float:
        """How many times better one forecast is than another, by the objective; 0 if it fails.

        What fits is infinitely better than what does not; of two that do not, by memory.
        """
        if forecast.run is None or than.run is None:
            return 0.0
        if forecast.run.fits is False or than.run.fits is False:
            if forecast.run.fits != than.run.fits:
                return 0.0 if forecast.run.fits is False else float("inf")
            return _ratio(than.run, forecast.run, "memory", 1.0)
        if self.objective in ("time", "cost"):
            return (forecast.speedup or 0.0) / (than.speedup or 1.0)
        work = self._work(forecast.names) / self._work(than.names)
        return _ratio(than.run, forecast.run, self.objective, work)

    def _work(self, names: Iterable[str]) -> float:
        return prod(find(name).work_factor(self.case) for name in names)


def _forecast(
    names: tuple[str, ...],
    effect: Effect,
    why: Text,
    run: Run,
    gain: tuple[float, float | None, float | None],
    price: Text | None,
) -> Forecast:
    return Forecast(
        names,
        effect,
        why,
        *gain,
        step_time_s=run.step_time_s,
        peak_memory_bytes=run.peak_memory_bytes,
        reserved_memory_bytes=run.reserved_memory_bytes,
        energy_j=run.energy_j,
        price=price,
        run=run,
    )


def _first(captured: Captured) -> Program:
    return captured if isinstance(captured, Program) else captured.programs[0]


def _ratio(before: Run, after: Run, objective: Objective, work: float) -> float:
    """How many times better by memory, energy or time; 1 where it is not known."""
    if objective == "memory":
        old, new, scale = before.peak_memory_bytes, after.peak_memory_bytes, 1.0
    elif objective == "energy":
        old, new, scale = before.energy_j, after.energy_j, work  # type: ignore[assignment]
    else:
        old, new, scale = before.step_time_s, after.step_time_s, work  # type: ignore[assignment]
    return old / new * scale if old and new else 1.0


def _joined(parts: Iterable[Text | None]) -> Text | None:
    return sentences(*parts) or None


def _failure(error: GpuscopeError) -> Text:
    return sentences(error.what, error.why)


def _unexpected(error: Exception) -> str:
    first_line = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first_line}"


def _too_large(run: Run) -> Text:
    story = run.analysis.memory
    need = Bytes(run.peak_memory_bytes or 0)
    room = Bytes(story.capacity_bytes) if story and story.capacity_bytes else "?"
    return Text("It needs {need} of {room}.", need=need, room=room)
