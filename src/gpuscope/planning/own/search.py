"""The user's own code: candidates, their quick score, the best of them simulated, one chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from math import log
from pathlib import Path
from typing import NoReturn

from gpuscope.document.text import Text
from gpuscope.errors import DoesNotFitError, GpuscopeError, InvalidValueError
from gpuscope.hardware import Cluster, parse_target
from gpuscope.hardware.grid import grid_factor
from gpuscope.planning.choice import choose, undominated
from gpuscope.planning.figures.registry import goal_of, goals
from gpuscope.planning.interrupted import by_score
from gpuscope.planning.limits import limits_of, nothing_within
from gpuscope.planning.own.near import neighbours
from gpuscope.planning.own.score import WRAPS, Effects, effects_of
from gpuscope.planning.own.simulate import Quick, Simulator
from gpuscope.planning.own.types import Changed, OwnPlan, OwnQuestion, Weighed
from gpuscope.planning.question import clusters_of
from gpuscope.planning.types import Rejected
from gpuscope.planning.verdicts import against_limits, beyond, left, out, quick_value, verdict
from gpuscope.program.models.settings import positive

__all__ = ["candidates", "question_of_own", "search_own"]

TRIES = 2
"""Candidates that may be simulated for each one that is wanted, since some do not fit."""

DOUBLINGS = range(-2, 7)
"""Batches that are tried: the code's own, times two to these powers."""

HOPELESS = 1.25
"""A quick peak of so many times a device's memory is not simulated."""

ALIKE = 0.02
"""Quick scores are put in steps of this share; the simplest of a step comes first."""

OnCandidate = Callable[[int, int, Changed], None]


def question_of_own(
    target: str,
    *,
    on: str | Sequence[str],
    devices: str | int | Sequence[int] | None = None,
    goal: str = "time",
    global_batch: int | None = None,
    simulate: int = 8,
    prices: Path | None = None,
    grid: str | None = None,
    device_set: str | None = None,
    limit: str | None = None,
) -> OwnQuestion:
    """Check everything.

    Args:
        target: "train.py:build", or a script.
        on: "8xh200"; several: "h200,8xh100".
        devices: how many of those that name no number; None: one.
        global_batch: samples of a step of the whole job; None: any.
        goal, simulate, prices, grid, device_set: as `gpuscope.planning.question.question_of` takes
            them.
        limit: what a step of the whole job may come to at most: "time<2s,power<5kW".

    Raises:
        InputFileError, UnknownNameError: no such file, function, device or goal.
        InvalidValueError: numbers that cannot be.
    """
    from gpuscope.program.workload import check_name

    goal_of(goal)
    positive("simulate", simulate)
    positive("global_batch", global_batch)
    check_name(target)
    limits = limits_of(limit)
    names = [n.strip() for n in on.split(",") if n.strip()] if isinstance(on, str) else list(on)
    clusters: list[Cluster] = []
    for name in names:
        asked = parse_target(name)
        count: str | int | Sequence[int] = 1 if devices is None else devices
        if asked.n_devices > 1 and devices is None:
            name, count = asked.device.id, asked.n_devices
        clusters += clusters_of(name, count, prices, goal, device_set, limits)
    if not clusters:
        raise InvalidValueError(Text("No device is named."), "", Text("Type: --on h200"))
    return OwnQuestion(
        target=target,
        clusters=tuple(dict.fromkeys(clusters)),
        goal=goal,
        global_batch=global_batch,
        simulated=simulate,
        grid=grid_factor(grid),
        limits=limits,
    )


def search_own(question: OwnQuestion, on_candidate: OnCandidate | None = None) -> OwnPlan:
    """Answer a checked question; interrupted, with the best so far.

    Before anything that fits was simulated, that is the best by the quick score.

    Args:
        question: what `question_of_own` gave.
        on_candidate: told of each before it is simulated: number, how many, which; of single
            changes first, then of what is put together.

    Raises:
        GpuscopeError: the code as it stands cannot be captured.
        DoesNotFitError: nothing fits; says what is least short. Nothing keeps every limit
            (`OverLimitError`).
    """
    simulator = Simulator(question)
    effects = effects_of(simulator, on_candidate)
    found = list(candidates(question, effects))
    if question.global_batch is not None:
        _check_batch(question, effects.own_batch, found)
    scores = [effects.of(each) for each in found]
    order = _order(question, found, scores)
    done = _Done()
    try:
        if not effects.complete:
            raise KeyboardInterrupt
        _simulate(question, simulator, found, scores, order, done, on_candidate)
    except KeyboardInterrupt:
        done.complete = False
    before = None
    if done.judged:
        best, ties = choose(done.judged, question.goal)
        own = effects.own_batch
        with suppress(KeyboardInterrupt):  # the answer stands without it
            before = simulator.judge(Changed(best.candidate.cluster, "", own, (), own), 0.0)
        done.complete = done.complete and before is not None
    elif done.complete and done.over:
        scored = ((e, q.step_s, q.peak_bytes) for e, q in zip(found, scores, strict=True))
        tried = against_limits(scored, {each.candidate: each for each in done.over})
        raise nothing_within(question.target, question.limits, tried, None)
    elif done.complete:
        _nothing_fits(question, done.rejected)
    else:
        best = _by_score(found, scores, order, done)
        ties = (best,)
    others = [
        left(question, found[n], scores[n].step_s, scores[n].peak_bytes)
        for n in range(len(found))
        if n not in done.tried
    ]
    return OwnPlan(
        question=question,
        best=best,
        ties=ties,
        front=undominated(done.judged, lambda e: tuple(e.value(goal) for goal in goals())),
        judged=tuple(done.judged),
        rejected=(*effects.out, *done.rejected, *others),
        before=before,
        candidates=len(found),
        complete=done.complete,
        near=neighbours(question.goal, best, (*done.judged, *done.over), found, scores)
        if done.judged
        else (),
    )


def candidates(question: OwnQuestion, effects: Effects) -> Iterator[Changed]:
    """Every sharing, batch and set of techniques on each cluster.

    Args:
        question: what is asked.
        effects: of single changes: which are combined, which share.
    """
    own = effects.own_batch
    for cluster in question.clusters:
        shares = [name for name in WRAPS if (cluster, name) in effects.alone] or [""]
        for share in shares:
            for batch in _batches(question, cluster, own):
                for techniques in _sets(effects.techniques):
                    yield Changed(cluster, share, batch, techniques, own)


def _batches(question: OwnQuestion, cluster: Cluster, own: int | None) -> list[int | None]:
    """Samples of a device's step that are tried."""
    whole, devices = question.global_batch, cluster.n_devices
    if own is None:
        return [None]
    if whole is None:
        return [int(own * 2.0**n) for n in DOUBLINGS if own * 2.0**n >= 1]
    return [] if whole % devices else [whole // devices]


def _check_batch(question: OwnQuestion, own: int | None, found: Sequence[Changed]) -> None:
    """Refuse a batch that cannot be."""
    whole = question.global_batch or 0
    if own is None:
        raise InvalidValueError(
            Text("This workload has no batch to vary."),
            Text("Its function has no argument 'batch' or 'batch_size' with a number."),
            Text("Write for example: def build(batch=8): and use it for the data."),
        )
    if not found:
        devices = min(each.n_devices for each in question.clusters)
        low = whole // devices * devices
        raise InvalidValueError(
            Text(
                "{batch} samples cannot be shared by {devices} devices.",
                batch=whole,
                devices=devices,
            ),
            Text("Each takes the same number."),
            Text(
                "Nearest: {nearest}.", nearest=", ".join(str(n) for n in (low, low + devices) if n)
            ),
        )


def _sets(names: Sequence[str]) -> list[tuple[str, ...]]:
    """All sets of changes, one of a group (a precision) at most, in the order of installation."""
    from gpuscope.advice.registry import find, plan

    sets = (chosen for n in range(len(names) + 1) for chosen in combinations(names, n))
    return [
        tuple(change.name for change in plan(each))
        for each in sets
        if len({find(name).group for name in each}) == len(each)
    ]


@dataclass(slots=True)
class _Done:
    """What was simulated so far.

    Attributes:
        judged, over: what fits within the limits, and what fits and breaks one.
        rejected: all that are out.
        tried: places of all.
        complete: whether it was not interrupted.
    """

    judged: list[Weighed] = field(default_factory=list)
    over: list[Weighed] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    tried: set[int] = field(default_factory=set)
    complete: bool = True


def _simulate(
    question: OwnQuestion,
    simulator: Simulator,
    found: Sequence[Changed],
    scores: Sequence[Quick],
    order: Sequence[int],
    done: _Done,
    on_candidate: OnCandidate | None,
) -> None:
    """Simulate the best by the quick score.

    Raises:
        KeyboardInterrupt: what is done until then is in `done`.
    """
    for n in order:
        if len(done.judged) == question.simulated or len(done.tried) == TRIES * question.simulated:
            break
        try:
            if on_candidate:
                on_candidate(len(done.judged) + 1, question.simulated, found[n])
            each = simulator.judge(found[n], scores[n].step_s)
        except GpuscopeError as error:
            done.tried.add(n)
            done.rejected.append(out(found[n], "layout", error.what))
            continue
        done.tried.add(n)
        refused = verdict(question, each.candidate, each)
        if refused is None:
            done.judged.append(each)
            continue
        done.rejected.append(refused)
        if refused.kind == "limit":
            done.over.append(each)


def _by_score(
    found: Sequence[Changed], scores: Sequence[Quick], order: Sequence[int], done: _Done
) -> Weighed:
    """The best of those that were not simulated, by the quick score.

    Raises:
        KeyboardInterrupt: there is none.
    """
    place = next((n for n in order if n not in done.tried), None)
    if place is None:
        raise KeyboardInterrupt
    done.tried.add(place)
    return by_score(Weighed, found[place], scores[place].step_s, scores[place].peak_bytes)


def _order(question: OwnQuestion, found: Sequence[Changed], scores: Sequence[Quick]) -> list[int]:
    """Which to simulate: the best of each cluster and sharing first, then all others."""

    def rank(n: int) -> tuple[bool, float, int, int]:
        each, usable = found[n], found[n].cluster.device.memory_usable_bytes
        value = quick_value(question.goal, each.cluster, scores[n].step_s) / each.samples
        alike = round(log(min(max(value, 1e-12), 1e300)) / ALIKE)
        over = beyond(question, each.cluster, scores[n].step_s)
        return scores[n].peak_bytes > usable, over, alike, each.dimensions

    hopeful = [
        n
        for n, each in enumerate(found)
        if scores[n].peak_bytes <= HOPELESS * each.cluster.device.memory_usable_bytes
    ]
    ordered = sorted(hopeful or range(len(found)), key=rank)
    first = {(found[n].cluster, found[n].share): n for n in reversed(ordered)}
    begin = sorted(first.values(), key=rank)
    return begin + [n for n in ordered if n not in begin]


def _nothing_fits(question: OwnQuestion, rejected: Sequence[Rejected]) -> NoReturn:
    last = rejected[-1] if rejected else None
    why = "" if last is None else Text("{plan}: {reason}", plan=last.words, reason=last.reason)
    raise DoesNotFitError(
        Text("No plan was found that fits {model}.", model=question.target),
        why,
        Text("Ask for more devices, for some with more memory, or for shorter sequences."),
    )
