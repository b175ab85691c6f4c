"""`Trials`: variants of one workload, timed in turn and held against the original's results."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from gpuscope.advice.change import Change
from gpuscope.advice.registry import plan
from gpuscope.advice.results import (
    Limits,
    Measured,
    Objective,
    Outcome,
    Parity,
    Stopped,
    Target,
    Trial,
)
from gpuscope.advice.trial.comparing import Proving
from gpuscope.advice.trial.device_sharing import Sharing
from gpuscope.advice.trial.failures import TrialFailure
from gpuscope.advice.trial.job import Job
from gpuscope.advice.trial.outcomes import (
    ALTERNATED,
    OVER,
    outcome_words,
    ran_out_words,
    stopped_words,
)
from gpuscope.advice.trial.pairs import Pairs, judged, steps_of_block, take_pairs
from gpuscope.advice.trial.process import Variant
from gpuscope.advice.user_changes import load_own
from gpuscope.document.text import Text, sentences
from gpuscope.errors import WorkloadError
from gpuscope.measurement.statistics import Interval, median_interval

__all__ = ["Trials"]

Say = Callable[[str], None]

DEFAULT_LIMITS = Limits()

BASELINE_BLOCKS = 8
PAIRS_S = 20.0
"""Pairs are taken for so long at most (never fewer than `pairs.LEAST_PAIRS`): on a device that has
settled the interval is narrow after a few seconds."""

ENERGY_WINDOW_S = 2.0
SHORT_WINDOW_S = 1.1
"""Where energy is told but decides nothing: just what a counter needs."""

ENERGY_WINDOWS = 6
ALTERNATIONS = 2
BLOCKS_ALONE = 4
_AT_ITS_END_S = 0.1


@dataclass(slots=True)
class _Contest:
    """What a contest has come to; filled as it goes."""

    names: tuple[str, ...]
    against: tuple[str, ...]
    began: float
    outcome: Outcome = "even"
    pairs: Pairs | None = None
    measured: Measured | None = None
    parity: Parity | None = None
    figure: Interval | None = None
    why: Text | None = None
    alternated: bool = False


class Trials:
    """Real runs of variants of one workload; a context manager that ends their processes.

    Args:
        target: the workload.
        limits: of each trial.
        device: "cuda", "cuda:1", "cpu"; None takes this machine's GPU.
        objective: what a change must improve to be kept.
        processes: of a distributed workload, one a device of this host.
        seed: of all random generators.
        allow_writes: what a script writes is real, else it goes to a copy of the files.
        own_changes: paths of Python files that register further changes.
        steps: whose results are compared.
        share: path of a file that all runs on one device name: while one is timed, the device does
            nothing for the others.
        folder: where outputs and compiled code are kept; None for a folder that goes at the end.
        say: told what is being done.
    """

    def __init__(
        self,
        target: Target,
        limits: Limits = DEFAULT_LIMITS,
        *,
        device: str | None = None,
        objective: Objective = "time",
        processes: int = 1,
        seed: int = 0,
        allow_writes: bool = False,
        own_changes: Sequence[str] = (),
        steps: int = 5,
        share: str | Path | None = None,
        folder: Path | None = None,
        say: Say = lambda text: None,
    ) -> None:
        load_own(own_changes)
        self.limits = limits
        self.objective: Objective = objective
        self._say = say
        self._job = Job(
            target,
            device=device,
            seed=seed,
            memory_bytes=limits.memory_bytes,
            own_changes=tuple(own_changes),
            allow_writes=allow_writes,
            processes=processes,
            share=str(share) if share else "",
        )
        self._sharing = Sharing(share)
        self._temporary = folder is None
        self._folder = Path(tempfile.mkdtemp(prefix="gpuscope-")) if folder is None else folder
        (self._folder / "output").mkdir(parents=True, exist_ok=True)
        self._running: Variant | None = None
        self._steps = steps
        self._proving = self._new_proving()
        self._ran_out: dict[tuple[str, ...], tuple[int, ...]] = {}
        self.left_s: Callable[[], float] = lambda: math.inf
        """Seconds until whatever is tried is ended, however far it is."""
        self.device = ""
        """Name of the device; "" before anything ran."""

    def __enter__(self) -> Trials:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process; what was compiled goes too, unless a folder was given."""
        self._stop()
        self._proving.close()
        if self._temporary:
            shutil.rmtree(self._folder, ignore_errors=True)

    # -- measuring ---------------------------------------------------------------------------------

    def baseline(self) -> Measured:
        """Measure the code as it is.

        Raises:
            WorkloadError: it cannot be run (again); says why.
        """
        try:
            variant = self._current(())
            with self._sharing.timing():
                blocks = [self._block(variant) for _ in range(BASELINE_BLOCKS)]
                return self._measured(variant, blocks)
        except TrialFailure as failure:
            self._stop()
            if self._goes_on(failure):
                return self.baseline()
            raise failure.as_error() from failure

    def contest(
        self,
        best: Sequence[str],
        candidate: Sequence[str],
        *,
        apart: bool = False,
        prove: bool = True,
    ) -> Trial:
        """Try a set of changes against another one.

        Args:
            best: the set to beat, () for the original.
            candidate: the set to try.
            apart: the device has no room for both at once: they run one after the other, in turn.
            prove: hold the results of what won against the original's; False where that was done
                for a set that these are a part of.

        Raises:
            WorkloadError: `best` itself cannot be run.
            UnknownNameError, InvalidValueError: a change is not known, or two exclude each other.
        """
        changes = plan(candidate)
        contest = _Contest(tuple(candidate), tuple(best), time.perf_counter())
        try:
            if apart:
                self._alternate(contest)
            else:
                self._side_by_side(contest)
            if contest.outcome == "kept" and prove:
                self._prove(contest, changes)
        except (TrialFailure, WorkloadError) as error:
            if self._goes_on(error):
                return self.contest(best, candidate, apart=apart, prove=prove)
            if self._ran_out_of_time(error):
                self._stop()
                return self._broken_off(contest, OVER)
            if not isinstance(error, TrialFailure):
                raise
            contest.outcome, contest.why = error.outcome, error.words
        except KeyboardInterrupt as stop:
            raise Stopped(self._broken_off(contest)) from stop
        return self._trial(contest)

    def _broken_off(self, contest: _Contest, *more: Text) -> Trial:
        """A trial that was ended before it was over: told, but not counted."""
        took, pairs = time.perf_counter() - contest.began, contest.pairs
        contest.outcome = "skipped"
        contest.why = sentences(stopped_words(took, pairs.ratio if pairs else None), *more)
        contest.pairs = contest.measured = contest.parity = None
        return self._trial(contest)

    def _limit_s(self) -> float:
        return min(self.limits.seconds, max(self.left_s(), 0.0))

    def _ran_out_of_time(self, error: BaseException) -> bool:
        """Whether something gave no answer because there was no time left for it."""
        failure = error if isinstance(error, TrialFailure) else error.__cause__
        hung = isinstance(failure, TrialFailure) and failure.outcome == "hung"
        return hung and self.left_s() <= _AT_ITS_END_S

    def _goes_on(self, error: BaseException) -> bool:
        """Whether a script ended too early because its loader did: from now on the last pass over
        it begins again as often as needed, in all variants."""
        failure = error if isinstance(error, TrialFailure) else error.__cause__
        if not isinstance(failure, TrialFailure) or not failure.passes or self._job.last_pass:
            return False
        self._say(Text("The script is too short: its loader begins again …"))
        self._stop()
        self._proving.close()
        self._job = replace(self._job, last_pass=failure.passes)
        self._proving = self._new_proving()
        return True

    def parity(self, names: Sequence[str]) -> Parity:
        """Hold the results of a set of changes against the original's, without timing.

        Raises:
            WorkloadError: the original, or the changed code, cannot be run.
            UnknownNameError, InvalidValueError: a change is not known, or two exclude each other.
        """
        try:
            return self._proving.parity(plan(names))
        except TrialFailure as failure:
            if self._goes_on(failure):
                return self.parity(names)
            raise failure.as_error() from failure

    def _side_by_side(self, contest: _Contest) -> None:
        best, candidate = self._both(contest)
        contest.began = time.perf_counter()
        until = contest.began + self._limit_s()
        winner = None
        try:
            try:
                candidate.wait_ready(until)
                with self._sharing.timing():
                    contest.pairs = take_pairs(
                        lambda: self._block(best),
                        lambda: self._block(candidate),
                        min(until, time.perf_counter() + PAIRS_S),
                    )
                    self._conclude(contest, best, candidate)
            except TrialFailure as failure:
                if failure.outcome != "memory" or best.kind == "cpu":
                    raise
                candidate.close()
                self._alternate(contest)
                return
            winner = candidate if contest.outcome == "kept" else None
        finally:
            if winner is None:
                candidate.close()
        self._stop()
        self._running = winner

    def _both(self, contest: _Contest) -> tuple[Variant, Variant]:
        """The one to beat, ready, and the candidate, started: both at once where the one to beat
        does not run yet."""
        candidate = self._variant(replace(self._job, names=contest.names))
        try:
            if not self._runs(contest.against):
                self._stop()
                candidate.start()
            try:
                best = self._current(contest.against)
            except TrialFailure as failure:
                if failure.outcome != "memory" or not candidate.alive:
                    raise
                candidate.close()  # it may have taken the room
                best = self._current(contest.against)
                candidate = self._variant(candidate.job)
            if not candidate.started:
                candidate.start()
        except TrialFailure as failure:
            candidate.close()
            raise failure.as_error() from failure
        except BaseException:
            candidate.close()
            raise
        return best, candidate

    def _alternate(self, contest: _Contest) -> None:
        """One after the other, in processes of their own, where both do not fit at once."""
        self._stop()
        self._proving.close()
        contest.alternated = True
        contest.began = time.perf_counter()
        pairs = Pairs()
        for _ in range(ALTERNATIONS):
            after, measured = self._alone(contest.names)
            contest.measured = measured
            try:
                before, other = self._alone(contest.against)
            except TrialFailure as failure:
                raise failure.as_error() from failure
            pairs.before_s += before
            pairs.after_s += after
        contest.pairs = pairs
        self._decide(contest, self._figure_alone(pairs, other, measured))

    def _figure_alone(self, pairs: Pairs, before: Measured, after: Measured) -> Interval | None:
        """Of what is to become better; energy from one window each is no interval: not told."""
        if self.objective == "memory":
            return _memory_ratio(before.peak_memory_bytes, after.peak_memory_bytes)
        return None if self.objective == "energy" else pairs.ratio

    def _alone(self, names: tuple[str, ...]) -> tuple[list[float], Measured]:
        variant = self._variant(replace(self._job, names=names))
        try:
            variant.start()
            variant.wait_ready(time.perf_counter() + self._limit_s())
            self.device = variant.device
            with self._sharing.timing():
                blocks = [self._block(variant) for _ in range(BLOCKS_ALONE)]
                return blocks, self._measured(variant, blocks)
        finally:
            variant.close()

    def _conclude(self, contest: _Contest, best: Variant, candidate: Variant) -> None:
        """Judge by the objective, with everything measured."""
        assert contest.pairs is not None
        figure: Interval | None = contest.pairs.ratio
        contest.measured = self._measured(candidate, contest.pairs.after_s)
        if self.objective == "memory":
            figure = _memory_ratio(best.memory()[0], contest.measured.peak_memory_bytes)
        elif self.objective == "energy":
            figure = self._energy_ratio(best, candidate)
        self._decide(contest, figure)

    def _decide(self, contest: _Contest, figure: Interval | None) -> None:
        """What the figure means; without one nothing is kept."""
        contest.figure = figure
        if figure is None:
            contest.outcome = "even"
            contest.why = Text(
                "The {objective} of a step is not available on this device.",
                objective=self.objective,
            )
            return
        contest.outcome = judged(figure)

    def _energy_ratio(self, best: Variant, candidate: Variant) -> Interval | None:
        ratios = []
        for _ in range(ENERGY_WINDOWS):
            before, after = best.energy(ENERGY_WINDOW_S), candidate.energy(ENERGY_WINDOW_S)
            if before is None or after is None:
                return None
            ratios.append(before / after)
        return median_interval(ratios)

    def _prove(self, contest: _Contest, changes: Sequence[Change]) -> None:
        """The results of what won; where the device has no room, the others make it."""
        self._say(Text("comparing results"))
        winner, self._running = self._running, None
        contest.parity = self._proving.parity(changes, winner)
        if not contest.parity.good:
            contest.outcome = "parity"

    def _new_proving(self) -> Proving:
        return Proving(self._variant, self._job, self._steps, self._limit_s)

    # -- variants ----------------------------------------------------------------------------------

    def _variant(self, job: Job) -> Variant:
        return Variant(job, self._folder / "output", self._environment(job.names), self._say)

    def _environment(self, names: Sequence[str]) -> dict[str, str]:
        """What its changes need before a process starts; and compiled code is shared by all
        variants of a run, so that what was compiled once is quick the next time."""
        environment = dict(os.environ)
        environment.setdefault("TORCHINDUCTOR_CACHE_DIR", str(self._folder / "inductor"))
        environment.setdefault("TRITON_CACHE_DIR", str(self._folder / "triton"))
        environment["PYTHONUNBUFFERED"] = "1"
        for change in plan(names):
            environment |= change.environment()
        return environment

    def _runs(self, names: tuple[str, ...]) -> bool:
        running = self._running
        return running is not None and running.alive and set(running.job.names) == set(names)

    def begin(self, names: tuple[str, ...] = ()) -> None:
        """Start a variant, by default the original, and go on; whoever needs it waits for it.

        Raises:
            TrialFailure: the first of several processes failed at once.
        """
        self._stop()
        if not names:
            self._proving.begin()
        self._running = variant = self._variant(replace(self._job, names=names))
        variant.start()

    def _current(self, names: tuple[str, ...]) -> Variant:
        """The running variant of these names, ready; started where another one runs."""
        running = self._running
        if running is not None and self._runs(names) and running.ready_s:
            return running
        if running is None or running.ready_s or set(running.job.names) != set(names):
            self.begin(names)
        try:
            variant = self._awaited()
        except TrialFailure as failure:
            if failure.outcome != "memory" or not self._proving.begun:
                raise
            self._proving.close()  # it may have taken the room
            self._stop()
            self._running = self._variant(replace(self._job, names=names))
            self._running.start()
            variant = self._awaited()
        self._proving.settle()
        self.device = variant.device
        return variant

    def _awaited(self) -> Variant:
        """What was begun, once it is ready; where it fails, it is gone."""
        assert self._running is not None
        try:
            self._running.wait_ready(time.perf_counter() + self._limit_s())
        except TrialFailure:
            self._stop()
            raise
        return self._running

    def _stop(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None

    def _block(self, variant: Variant) -> float:
        return variant.time(steps_of_block(variant.step_s))

    def _measured(self, variant: Variant, blocks: Sequence[float]) -> Measured:
        interval = median_interval(blocks)
        peak, reserved = variant.memory()
        self._ran_out[variant.job.names] = variant.ran_out
        window = ENERGY_WINDOW_S if self.objective == "energy" else SHORT_WINDOW_S
        energy = variant.energy(window) if variant.kind != "cpu" else None
        return Measured(
            interval.median,
            interval.low,
            interval.high,
            len(blocks) * steps_of_block(variant.step_s),
            peak,
            reserved,
            energy,
            variant.ready_s,
            variant.loader_s,
        )

    def _trial(self, contest: _Contest) -> Trial:
        ratio = contest.pairs.ratio if contest.pairs is not None else None
        why = contest.why or outcome_words(
            contest.outcome, ratio, contest.figure, self.objective, contest.parity
        )
        more = [ALTERNATED] if contest.alternated else []
        more += [ran_out_words(batches) for batches in self._ran_out.get(contest.names, ())]
        why = sentences(why, *more)
        held = set(contest.against)
        return Trial(
            names=contest.names,
            added=tuple(n for n in contest.names if n not in held),
            against=contest.against,
            outcome=contest.outcome,
            speedup=ratio.median if ratio else None,
            low=ratio.low if ratio else None,
            high=ratio.high if ratio else None,
            measured=contest.measured,
            parity=contest.parity,
            why=why,
            seconds=time.perf_counter() - contest.began,
        )


def _memory_ratio(before: int | None, after: int | None) -> Interval | None:
    """Peaks do not scatter from block to block: the ratio is exact."""
    if not before or not after:
        return None
    ratio = before / after
    return Interval(ratio, ratio, ratio, 1.0)
