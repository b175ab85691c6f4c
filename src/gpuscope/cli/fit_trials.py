"""What would make a job fit that does not: other plans, each tried by a prediction of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from gpuscope import api
from gpuscope.analysis.fit import fit_options
from gpuscope.cost.anew import as_run
from gpuscope.document.quantities import Bytes, Seconds
from gpuscope.document.text import Text, joined
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import Calibration, Cluster, calibration_for
from gpuscope.program.models.parallel.options import ParallelOptions
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.world import RankPrograms
from gpuscope.run import Run
from gpuscope.timeline.recost import peak_memory

MOST_TRIALS = 4
"""Plans that are tried: each is captured anew."""

MOST_S = 10.0
"""No further plan is begun after so many seconds."""

STATE_BYTES = 16
"""Of mixed-precision training with Adam, for each parameter: float32 weight, gradient and two
moments (Rajbhandari et al. 2020, ZeRO, counts as many)."""

MOST_DEVICES = 1024
"""No more are tried."""

ENOUGH = 2
"""Plans that fit, after which no more are tried."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A plan that was predicted.

    Attributes:
        options: what to add to the command line ("--recompute full").
        peak_memory_bytes: of its fullest rank.
        fits: whether every rank fits.
        time: finds the time of its step, or what says that it cannot be.
    """

    options: str
    peak_memory_bytes: int
    fits: bool
    time: Callable[[], float]


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
    found: list[Trial] = []
    if options.parallel is None and (cluster.n_devices == 1 or options.task not in (None, "train")):
        return ()
    asked = options.parallel or ParallelOptions(fsdp="none")
    begin_s = time.monotonic()
    for words, plan in _plans(asked):
        if len(found) == MOST_TRIALS or sum(trial.fits for trial in found) == ENOUGH:
            break
        if found and time.monotonic() - begin_s > MOST_S:
            break
        say(words)
        changed = replace(options, parallel=plan)
        found += _tried(workload, cluster, changed, calibration, words)
    return tuple(found)


def trials_on_more(
    workload: str,
    run: Run,
    cluster: Cluster,
    options: WorkloadOptions,
    calibration: Calibration | None,
    say: Callable[[str], None],
) -> tuple[Trial, ...]:
    """Predict a training step that is too large for one device on the fewest that hold it.

    From the first power of two over which the model's states fit, each number is tried sharded,
    then also with recomputation, until one fits, four were tried, or twenty seconds are over.
    Nothing is tried where a change on the one device is enough, or for code of the user's own.

    Args:
        run: of the step on one device.
        workload, cluster, options, calibration, say: see `fit_trials`.
    """
    program, memory = run.program, run.analysis.memory
    own_code = workload.endswith(".py") or ".py:" in workload
    if own_code or options.module or program is None or program.task != "train" or memory is None:
        return ()
    if any(each.fits and "sharding" not in each.name for each in fit_options(memory, program)):
        return ()
    asked = replace(options.parallel or ParallelOptions(), fsdp="full")
    devices, found = 2, list[Trial]()
    while program.parameters * STATE_BYTES / devices > (memory.capacity_bytes or 0):
        devices *= 2
    begin_s = time.monotonic()
    while devices <= MOST_DEVICES and len(found) < MOST_TRIALS:
        several = api.resolve_target(f"{devices}x{cluster.device.id}").with_device(cluster.device)
        for more in ("", "full"):
            if found and time.monotonic() - begin_s > 2 * MOST_S:
                return tuple(found)
            words = f"--on {devices}x{cluster.device.id} --fsdp full"
            words += " --recompute full" * bool(more)
            words += f" --microbatch {options.batch}" if options.batch else ""
            say(words)
            plan = replace(asked, recompute=more or asked.recompute, microbatch=options.batch)
            changed = replace(options, parallel=plan, batch=None, checkpointing=False)
            tried = _tried(workload, several, changed, calibration, words)
            if not tried and not found:
                return ()
            found += tried
            if tried and tried[0].fits:
                return tuple(found)
        devices *= 2
    return tuple(found)


def _tried(
    workload: str,
    cluster: Cluster,
    options: WorkloadOptions,
    calibration: Calibration | None,
    words: str,
) -> list[Trial]:
    """The plan predicted; none where it cannot be."""
    try:
        return [Trial(words, *predicted(workload, cluster, options, calibration))]
    except GpuscopeError:
        return []


def predicted(
    workload: str, cluster: Cluster, options: WorkloadOptions, calibration: Calibration | None
) -> tuple[int, bool, Callable[[], float]]:
    """Return the peak of a job's fullest rank, whether all fit, and what finds its step's time.

    Where all ranks are equal, one that does not fit is not costed: its time is seldom told.

    Raises:
        GpuscopeError: the plan cannot be.
    """
    constants = api.resolve_calibration(cluster, calibration) or calibration_for(cluster.device)
    captured = api.capture_job(workload, cluster, options, calibration=constants)

    def recosted(memory: bool = False) -> Any:
        return api.recost(captured, cluster, calibration=constants, interval=False, memory=memory)

    if isinstance(captured, RankPrograms) and not captured.equal:
        job = recosted(memory=True)
        fits = all(rank.fits for rank in job.ranks)
        return job.fullest.peak_memory_bytes, fits, lambda: float(job.step_time_s)
    program = captured.programs[0] if isinstance(captured, RankPrograms) else captured
    peak, fits, _ = peak_memory(as_run(program, cluster.device), cluster.device)
    step_s = recosted().step_time_s if fits else None
    return peak, fits, lambda: float(recosted().step_time_s if step_s is None else step_s)


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
    if run.world_size == 1 and any(trial.fits for trial in trials):
        plan = next(trial for trial in trials if trial.fits)
        hint = Text(
            "It fits on more devices, as predicted, with {options} ({memory} on each, {time}).",
            options=plan.options,
            memory=Bytes(plan.peak_memory_bytes),
            time=Seconds(plan.time()),
        )
    if hint is None:
        return run
    findings = tuple(
        replace(each, hint=hint) if each.kind == "does_not_fit" else each
        for each in run.analysis.findings
    )
    return replace(run, analysis=replace(run.analysis, findings=findings))


def _time_s(trial: Trial) -> float | None:
    try:
        return trial.time()
    except GpuscopeError:  # what cannot be costed is no plan
        return None


def _hints(trials: tuple[Trial, ...]) -> Text | None:
    fitting = [trial for trial in trials if trial.fits]
    listed = [
        Text(
            "{options} ({memory}, {time})",
            options=trial.options,
            memory=Bytes(trial.peak_memory_bytes),
            time=Seconds(time_s),
        )
        for trial in fitting or trials
        if (time_s := _time_s(trial)) is not None
    ]
    if not listed:
        return None
    if fitting:
        return Text("Predicted to fit: {plans}.", plans=joined(listed, ", or "))
    return Text(
        "Tried, and too much still: {plans}. Use more devices, or some with more memory.",
        plans=joined(listed),
    )
