"""What would make a job fit that does not: other plans, each tried by a prediction of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from gpuscope import api
from gpuscope.document.quantities import Bytes, Seconds
from gpuscope.document.text import Text, joined
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import Calibration, Cluster
from gpuscope.program.models.parallel.options import ParallelOptions
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.run import Run

MOST_TRIALS = 4
"""Plans that are tried: each is captured anew."""

MOST_S = 10.0
"""No further plan is begun after so many seconds."""

ENOUGH = 2
"""Plans that fit, after which no more are tried."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A plan that was predicted.

    Attributes:
        options: what to add to the command line ("--recompute full").
        peak_memory_bytes: of its fullest rank.
        step_time_s: of its step.
        fits: whether every rank fits.
    """

    options: str
    peak_memory_bytes: int
    step_time_s: float
    fits: bool


def fit_trials(
    workload: str,
    cluster: Cluster,
    options: WorkloadOptions,
    calibration: Calibration | None,
    say: Callable[[str], None],
) -> tuple[Trial, ...]:
    """Predict other plans of a job until two fit, four were tried, or ten seconds are over.

    A plan that cannot be (heads that do not divide, ...) is passed over.

    Args:
        workload: a model's name.
        cluster: what it runs on.
        options: what was asked for; without a plan it is data parallel, on one device nothing is
            tried.
        calibration: constants other than the catalogue's.
        say: shows what is being done.
    """
    if options.parallel is None and (cluster.n_devices == 1 or options.task not in (None, "train")):
        return ()
    asked = options.parallel or ParallelOptions(fsdp="none")
    found: list[Trial] = []
    begin_s = time.monotonic()
    for words, plan in _plans(asked):
        if len(found) == MOST_TRIALS or sum(trial.fits for trial in found) == ENOUGH:
            break
        if found and time.monotonic() - begin_s > MOST_S:
            break
        say(words)
        try:
            job = api.recost(
                workload,
                cluster,
                options=replace(options, parallel=plan),
                calibration=calibration,
                interval=False,
            )
        except GpuscopeError:
            continue
        peak, fits = _memory(job)
        if peak is not None and fits is not None:
            found.append(Trial(words, peak, job.step_time_s, fits))
    return tuple(found)


def _memory(job: Any) -> tuple[int | None, bool | None]:
    """Peak and whether it fits, of one program or of the fullest rank."""
    if not hasattr(job, "ranks"):
        return job.peak_memory_bytes, job.fits
    fullest = job.fullest
    if fullest is None:
        return None, None
    return fullest.peak_memory_bytes, all(rank.fits for rank in job.ranks)


def _plans(asked: ParallelOptions) -> Iterator[tuple[str, ParallelOptions]]:
    """Other plans, the one that costs least time first."""
    sharded = asked.fsdp in (None, "full")
    if not sharded:
        yield "--fsdp full", replace(asked, fsdp="full")
    if asked.recompute != "full":
        yield "--recompute full", replace(asked, recompute="full")
        if asked.fsdp != "full":
            whole = replace(asked, recompute="full", fsdp="full")
            yield "--recompute full --fsdp full", whole
    for name in ("tp", "pp"):
        words, plan = _doubled(asked, name)
        yield words, plan
        if asked.recompute != "full":
            yield f"{words} --recompute full", replace(plan, recompute="full")


def _doubled(asked: ParallelOptions, name: str) -> tuple[str, ParallelOptions]:
    """Twice the ranks that share a model, half the replicas where their number was given."""
    size = 2 * (getattr(asked, name) or 1)
    changes: dict[str, Any] = {name: size}
    words = f"--{name} {size}"
    if asked.dp is not None:
        changes["dp"] = max(1, asked.dp // 2)
        words += f" --dp {changes['dp']}"
    return words, replace(asked, **changes)


def told(run: Run, trials: tuple[Trial, ...]) -> Run:
    """The run with what was tried as the hint of its finding `does_not_fit`."""
    if not trials:
        return run
    hint = _hints(trials)
    findings = tuple(
        replace(each, hint=hint) if each.kind == "does_not_fit" else each
        for each in run.analysis.findings
    )
    return replace(run, analysis=replace(run.analysis, findings=findings))


def _hints(trials: tuple[Trial, ...]) -> Text:
    fitting = [trial for trial in trials if trial.fits]
    listed = [
        Text(
            "{options} ({memory}, {time})",
            options=trial.options,
            memory=Bytes(trial.peak_memory_bytes),
            time=Seconds(trial.step_time_s),
        )
        for trial in fitting or trials
    ]
    if fitting:
        return Text("Predicted to fit: {plans}.", plans=joined(listed, ", or "))
    return Text(
        "Tried, and too much still: {plans}. Use more devices, or some with more memory.",
        plans=joined(listed),
    )
