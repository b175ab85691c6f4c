"""`optimize`: what would help, really tried, proven, and kept only where it wins."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from gpuscope.advice.forecast.known_changes import KnownChanges
from gpuscope.advice.results import Ladder, Limits, Measured, Objective, Trial
from gpuscope.advice.source.code_hash import code_hash
from gpuscope.advice.source.locating import Located, locate
from gpuscope.advice.trial.budget import Budget
from gpuscope.advice.trial.candidates import Asked, Candidates, find_candidates
from gpuscope.advice.trial.failures import TrialFailure
from gpuscope.advice.trial.host_pace import FILE as HOST_FILE
from gpuscope.advice.trial.host_pace import HostBench
from gpuscope.advice.trial.ladder_store import LADDER_FILE, LadderStore, MadeOf
from gpuscope.advice.trial.paired_gain import paired_gain
from gpuscope.advice.trial.search import Search
from gpuscope.capturing import with_file
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError, UnsupportedError

if TYPE_CHECKING:
    from gpuscope.advice.trial.trials import Trials
    from gpuscope.measurement.accelerator import Accelerator
    from gpuscope.program.workload import WorkloadOptions

__all__ = ["FOLDER", "optimize"]

FOLDER = Path("gpuscope-optimize")
"""Where ladders go by default, each in a folder of its own."""

_FOR_TRIALS = 0.25
"""Share of the budget that trials get even where what comes before took longer than the rest."""
_FOR_PATCH = 0.1
"""Share of the budget that the run of the patch gets beyond it where nothing is left."""
_FOR_PREDICTING = 0.15
"""Share of the budget after which no further change is predicted."""
_LONGEST_TRIAL_S = 300.0
_SHORTEST_LIMIT_S = 180.0
"""A script that waits for its data may need minutes until its pace is steady."""

_PRODUCT = Text(
    "The gain is the product of its steps: original and best were not compared directly."
)
_PATCHED = Text(
    "The gain is that of the patched source: the changes made live were not compared directly with "
    "the original."
)

Names = tuple[str, ...]
Say = Callable[[str], None]
Tell = Callable[[Trial], None]


def optimize(
    target: Callable[..., Any] | str,
    *,
    on: str | None = None,
    objective: Objective = "time",
    budget_s: float = 600.0,
    options: WorkloadOptions | None = None,
    device: str | None = None,
    arguments: Sequence[str] = (),
    allow: Collection[str] = (),
    only: Collection[str] = (),
    without: Collection[str] = (),
    alone: bool = False,
    out: str | Path | None = None,
    resume: bool = False,
    own_changes: Sequence[str] = (),
    allow_writes: bool = False,
    processes: int = 1,
    on_progress: Say = lambda text: None,
    on_trial: Tell = lambda trial: None,
    advice: str | Path | None = None,
    share: str | Path | None = None,
    bench: bool = True,
) -> Ladder:
    """Find out by real trials what makes a workload better, led by prediction.

    Each trial runs in processes of its own, in interleaved pairs against the best until then, and
    its results are held against the original's: what does not win or changes the results beyond
    what its precision allows is not kept. Every trial is written down as soon as it is over.

    Args:
        target: a build function at the top level of a file, `file.py:build`, a built-in model's
            name, or a script.
        on: device to predict for; this machine's by default.
        objective: what "better" means: time, memory, energy, or cost (on one machine as time).
        budget_s: seconds for all of it. A trial that is not over when they are is ended; trials get
            a quarter of it at least, and the patch's run may end a tenth of it later.
        options: of a workload given by name.
        device: that runs it: "cuda", "cuda:1", "cpu"; this machine's GPU by default.
        arguments: of a script; else those of `options`.
        allow: numerics that are not tried unless asked for: fp8, int8, int4, recipe.
        only: try these changes alone; () for all.
        without: leave these out.
        alone: also try each change by itself against the original (longer; for the evidence).
        out: folder of the ladder; `gpuscope-optimize/NAME` by default.
        resume: go on where an earlier run in that folder stopped.
        own_changes: Python files that register further changes.
        allow_writes: what a script writes is real, in each trial anew; else it vanishes.
        processes: of a distributed workload, one a device of this machine.
        share: a file that several runs on one device name: all of them go on at once, and while one
            is timed, the device does nothing for the others.
        on_progress: told what is being done.
        on_trial: given each trial once it is over.
        advice: forecasts that `gpuscope advise --save` wrote; then nothing is predicted here.
        bench: where predictions are for this machine, nobody benched it, and the budget is five
            minutes or more, measure its host first (about 20 s); else the catalogue's host is
            predicted for.

    Returns:
        The ladder. Interrupted (Ctrl-C), it holds what was found until then.

    Raises:
        UnsupportedError: there is no GPU (and `device` is not "cpu").
        WorkloadError: the target cannot be run, run again, or found from another process.
        InvalidValueError, UnknownNameError: a value, a change or a name that cannot be.
        InputFileError: a file is missing, or the earlier run was of something else.
    """
    _check(budget_s, processes, objective)
    from gpuscope.advice.user_changes import load_own

    began = time.monotonic()
    load_own(own_changes)
    options = _with_script(options, arguments, allow_writes)
    located = locate(target, options)
    accelerator = _accelerator(device)
    asked = Asked(on, objective, options, allow, only, without, alone, processes, advice)
    work = _Work(
        located,
        asked,
        accelerator,
        budget_s,
        tuple(own_changes),
        options.allow_writes,
        device,
        began,
        on_progress,
        on_trial,
        Path(share) if share is not None else None,
    )
    store = _store(work, Path(out) if out is not None else FOLDER / located.short_name)
    before = store.recall() if resume else None
    if before is None:
        _set_aside(store)
    host = HostBench(store.folder, budget_s, bench, before is not None, work.share, on_progress)
    with tempfile.TemporaryDirectory(prefix="gpuscope-") as caches, _trials(work, caches) as trials:
        if before is None and not host.may_measure:
            # Most of a first trial is importing: the original does that beside what is predicted.
            with suppress(TrialFailure):
                trials.begin()
        candidates = find_candidates(
            _workload(located, options),
            asked,
            accelerator,
            on_progress,
            host,
            _FOR_PREDICTING * budget_s,
        )
        return _Optimization(work, store, candidates, before).run(trials, Path(caches))


def _check(budget_s: float, processes: int, objective: str) -> None:
    if not 0 < budget_s <= 7 * 86400:
        raise InvalidValueError(
            Text("A budget of {budget} seconds cannot be.", budget=Number(budget_s, "g")),
            "",
            Text("Type for example: --budget 10m"),
        )
    if not 1 <= processes <= 64:
        raise InvalidValueError(
            Text("{processes} processes cannot be.", processes=processes),
            "",
            Text("Type for example: --gpus 2"),
        )
    if objective not in get_args(Objective):
        raise UnknownNameError("objective", objective, get_args(Objective))


@dataclass(frozen=True, slots=True)
class _Work:
    """What is to be done, and how."""

    located: Located
    asked: Asked
    accelerator: Accelerator
    budget_s: float
    own_changes: tuple[str, ...]
    allow_writes: bool
    device: str | None
    began: float
    say: Say
    tell: Tell
    share: Path | None = None

    @property
    def left_s(self) -> float:
        """Seconds of the budget that are left; negative once it is over."""
        return self.budget_s - (time.monotonic() - self.began)

    @property
    def limits(self) -> Limits:
        """Of one trial: half the budget, and never more than five minutes."""
        return Limits(max(_SHORTEST_LIMIT_S, min(_LONGEST_TRIAL_S, self.budget_s / 2)))


def _trials(work: _Work, caches: str) -> Trials:
    from gpuscope.advice.trial.trials import Trials

    return Trials(
        work.located.target,
        work.limits,
        device=work.device,
        folder=Path(caches),
        objective=work.asked.objective,
        allow_writes=work.allow_writes,
        own_changes=work.own_changes,
        processes=work.asked.processes,
        share=work.share,
        say=work.say,
    )


class _Optimization:
    """One run: baseline, search, patch, and the ladder after every trial."""

    def __init__(
        self, work: _Work, store: LadderStore, candidates: Candidates, before: Ladder | None
    ) -> None:
        self.work, self.store, self.candidates, self.before = work, store, candidates, before
        self._baseline: Measured | None = None
        self._search: Search | None = None
        self._patch = ""
        self._patch_trial: Trial | None = None
        self._patch_note: Text | None = None

    def run(self, trials: Trials, caches: Path) -> Ladder:
        """Do all of it.

        Args:
            trials: of the workload.
            caches: folder of compiled code.
        """
        interrupted = False
        self.work.say(Text("Measuring the code as it is …"))
        self._baseline = self.before.baseline if self.before else trials.baseline()
        self._search = self._new_search(trials)
        try:
            self._search.run()
            trials.close()
            self._make_patch(caches)
        except KeyboardInterrupt:
            interrupted = True
        ladder = self._ladder(interrupted)
        self.store.write(ladder, finished=not interrupted)
        self._write_patch()
        return ladder

    def _new_search(self, trials: Trials) -> Search:
        work, candidates = self.work, self.candidates
        assert self._baseline is not None
        budget = Budget(max(work.left_s, _FOR_TRIALS * work.budget_s), self._baseline.ready_s)

        def contest(against: Names, names: Names) -> Trial:
            known = _recorded(self.before, against, names)
            if known is not None:
                return known
            work.say(Text("Trying {names} …", names=" + ".join(names)))
            return trials.contest(against, names, prove=not self._is_proven(against, names))

        search = Search(
            contest,
            candidates.forecast,
            candidates.wanted,
            KnownChanges(),
            budget,
            self._told,
            candidates.cheap,
            work.located.file is not None and candidates.seen is not None,
        )
        trials.left_s = lambda: budget.left_s - search.closing_s()
        return search

    def _is_proven(self, against: Names, names: Names) -> bool:
        """Whether a step of the ladder, or original against best, is part of a set whose results
        were held against the original's."""
        trials = self._search.trials if self._search is not None else []
        return set(against) < set(names) and any(
            t.parity is not None and t.parity.good and set(names) <= set(t.names) for t in trials
        )

    def _told(self, trial: Trial) -> None:
        """A trial is over: write it down, and say so."""
        self.store.write(self._ladder(False), finished=False)
        if trial.purpose != "step" or trial.seconds > 0:  # else it was told before
            self.work.tell(self.candidates.shown(trial))

    def _make_patch(self, caches: Path) -> None:
        from gpuscope.advice.trial.patch_trial import apply_note, patch_and_try

        search, located = self._search, self.work.located
        assert search is not None
        if not search.best or located.file is None:
            return
        if self.candidates.seen is None:
            self._patch_note = apply_note(search.best, located.function)
            return
        self.work.say(Text("Writing the patch, and running it …"))
        until = time.monotonic() + max(self.work.left_s, _FOR_PATCH * self.work.budget_s)
        made = patch_and_try(
            search.best,
            self.candidates.seen,
            located,
            self.store.folder,
            self.work.limits,
            device=self.work.device,
            gain=search.gain(),
            step_s=search.step_s(),
            caches=caches,
            say=self.work.say,
            processes=self.work.asked.processes,
            share=self.work.share,
            allow_writes=self.work.allow_writes,
            left_s=lambda: until - time.monotonic(),
        )
        self._patch, self._patch_trial, self._patch_note = made.diff, made.trial, made.note
        if made.trial is not None:
            self.work.tell(made.trial)
        if made.stopped:
            raise KeyboardInterrupt

    def _write_patch(self) -> None:
        from gpuscope.atomic import write_atomically

        path = self.store.folder / "patch.diff"
        if self._patch:
            write_atomically(path, self._patch)
        else:
            path.unlink(missing_ok=True)

    def _ladder(self, interrupted: bool) -> Ladder:
        search, candidates, work = self._search, self.candidates, self.work
        assert search is not None
        assert self._baseline is not None
        trials = [candidates.shown(t) for t in search.trials]
        if self._patch_trial is not None:
            trials.append(self._patch_trial)
        paired = paired_gain(trials, search.best, bool(self._patch))
        low, middle, high = paired or search.gain() or (None, None, None)
        earlier = self.before.seconds if self.before is not None else 0.0
        return Ladder(
            target=work.located.target,
            device=work.accelerator.name,
            objective=work.asked.objective,
            baseline=self._baseline,
            trials=tuple(trials),
            best=search.best,
            speedup=middle,
            low=low,
            high=high,
            patch=self._patch,
            advice=candidates.advice,
            unit=candidates.unit,
            per_step=candidates.per_step,
            seconds=earlier + time.monotonic() - work.began,
            notes=self._notes(interrupted),
            interrupted=interrupted,
        )

    def _notes(self, interrupted: bool) -> tuple[Text, ...]:
        assert self._search is not None
        versions = ", ".join(f"{k} {v}" for k, v in self.store.made_of.versions.items())
        notes = [*self.candidates.notes, Text("Versions: {versions}.", versions=versions)]
        if interrupted:
            notes.append(Text("Interrupted: what was found until then. Go on with --resume."))
        if self._search.best and not self._search.in_pairs():
            known = self._patch_trial is not None and bool(self._patch)
            notes.append(_PATCHED if known else _PRODUCT)
        if self._patch_note is not None:
            notes.append(self._patch_note)
        return tuple(notes)


def _accelerator(device: str | None) -> Accelerator:
    from gpuscope.measurement.accelerator import choose_accelerator

    try:
        return choose_accelerator(device)
    except UnsupportedError as error:
        raise UnsupportedError(
            error.what,
            error.why,
            Text("Type: gpuscope advise ... --on h200 (predicts, needs no GPU), or --device cpu."),
        ) from error


def _with_script(
    options: WorkloadOptions | None, arguments: Sequence[str], allow_writes: bool
) -> WorkloadOptions:
    """Options with what is said of a script beside them."""
    from gpuscope.program.workload import WorkloadOptions

    given = options or WorkloadOptions()
    return replace(
        given,
        arguments=tuple(arguments) or given.arguments,
        allow_writes=allow_writes or given.allow_writes,
    )


def _workload(located: Located, options: WorkloadOptions | None) -> str:
    """What is captured, found to be there."""
    if located.file is not None:
        from gpuscope.program.workload import resolve

        file = resolve(located.target.name, options, load=False).file
        if file is not None:
            with_file(file, callable)
    return located.target.name


def _store(work: _Work, folder: Path) -> LadderStore:
    import platform

    import torch

    from gpuscope import __version__

    versions = {
        "gpuscope": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "cuda": str(torch.version.cuda or ""),
    }
    file = work.located.file
    made_of = MadeOf(
        work.located.target,
        code_hash(file) if file is not None else "",
        work.accelerator.name,
        {k: v for k, v in versions.items() if v},
        work.asked.objective,
    )
    return LadderStore(folder, made_of)


def _set_aside(store: LadderStore) -> None:
    """An earlier ladder is kept under another name, and so is the host it was predicted for."""
    for name in (LADDER_FILE, HOST_FILE):
        if (store.folder / name).exists():
            os.replace(store.folder / name, store.folder / f"before-{name}")


def _recorded(before: Ladder | None, against: Names, names: Names) -> Trial | None:
    """The same contest in an earlier run; hung ones are tried again."""
    for trial in before.trials if before is not None else ():
        same = set(trial.names) == set(names) and set(trial.against) == set(against)
        if same and trial.outcome not in ("skipped", "hung") and trial.purpose != "patch":
            return replace(trial, seconds=trial.seconds or 0.0)
    return None
