"""Fine-tuning: candidates, their score, the best of them simulated, one chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InvalidValueError, UnknownNameError
from gpuscope.hardware.grid import grid_factor
from gpuscope.planning.choice import choose, front
from gpuscope.planning.figures.registry import goal_of
from gpuscope.planning.interrupted import by_score
from gpuscope.planning.limits import limits_of, nothing_within
from gpuscope.planning.question import clusters_of, size_of
from gpuscope.planning.simulate import probability_to_fit
from gpuscope.planning.tuning.launch import check_framework
from gpuscope.planning.tuning.near import neighbours
from gpuscope.planning.tuning.nearest import would_fit
from gpuscope.planning.tuning.score import Estimate, estimate
from gpuscope.planning.tuning.simulate import Simulator
from gpuscope.planning.tuning.space import candidates
from gpuscope.planning.tuning.types import Shortfall, Tuned, TuningPlan, TuningQuestion, Weighed
from gpuscope.planning.types import Rejected
from gpuscope.planning.verdicts import against_limits, beyond, left, out, quick_value, verdict
from gpuscope.program.models.rows import PACKINGS, lengths_of
from gpuscope.program.models.settings import positive
from gpuscope.program.models.tuning import METHODS, projections_of

__all__ = ["HOPELESS", "packings_of", "question_of_tuning", "search_tuning"]

HOPELESS = 1.2
"""A quick peak of so many times a device's memory is not simulated: held against the simulator's on
36 steps of two models the quick one was at most 13 % too high."""

OnCandidate = Callable[[int, int, Tuned], None]


def question_of_tuning(
    model: str,
    *,
    on: str | Sequence[str] = "h200",
    devices: str | int | Sequence[int] = 1,
    method: str = "lora",
    rank: int = 16,
    targets: str = "all-linear",
    global_batch: int = 16,
    seq: int = 2048,
    goal: str = "time",
    tokens: float | None = None,
    simulate: int = 6,
    prices: Path | None = None,
    grid: str | None = None,
    device_set: str | None = None,
    lengths: str | None = None,
    packing: str | None = None,
    limit: str | None = None,
    framework: str | None = None,
) -> TuningQuestion:
    """Check everything; arguments as `gpuscope.planning.question.question_of`, and:

    Args:
        method: "lora", or several: "lora,qlora,full".
        rank: of the adapters.
        targets: which products get one: "all-linear", "attention", "qv", or "q,k,up".
        lengths: of examples, see `gpuscope.program.models.rows.lengths_of`; None: all have
            `seq` tokens.
        packing: how they lie in rows: "padded", "flash", "mask", or several; None: all of them.
        framework: "peft": only devices that its script can start are taken.

    Raises:
        UnknownNameError, InvalidValueError, UnsupportedError: as there.
    """
    goal_of(goal)
    for name, value in (
        ("global_batch", global_batch),
        ("seq", seq),
        ("simulate", simulate),
        ("rank", rank),
    ):
        positive(name, value)
    methods = _named(Text("method"), method, METHODS)
    packings, limits = packings_of(lengths, packing), limits_of(limit)
    clusters = clusters_of(on, devices, prices, goal, device_set, limits)
    check_framework(framework, clusters)
    question = TuningQuestion(
        model=model,
        size=size_of(model),
        clusters=clusters,
        methods=methods,
        rank=rank,
        targets=projections_of(targets),
        global_batch=global_batch,
        seq=seq,
        goal=goal,
        tokens=tokens,
        simulated=max(simulate, len(packings)),
        grid=grid_factor(grid),
        lengths=() if lengths is None else lengths_of(lengths),
        packings=packings,
        limits=limits,
        framework=framework,
    )
    _ = question.steps  # refused before anything is captured
    return question


def _named(what: Text, text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Names with commas between, each once.

    Raises:
        UnknownNameError: one is none of the known.
    """
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names or (text,):
        if name not in known:
            choice = Text("Type one of: {names}.", names=", ".join(known))
            raise UnknownNameError(what, name, known, choice)
    return names


def packings_of(lengths: object | None, packing: str | None) -> tuple[str, ...]:
    """How rows are made of examples.

    Raises:
        UnknownNameError: no such way.
        InvalidValueError: a way to pack examples that are all as long as a row.
    """
    if lengths is None and packing is not None:
        raise InvalidValueError(
            Text("--packing does not say how long examples are."),
            Text("Examples of equal length fill their rows: there is nothing to pack."),
            Text(
                "Type for example: --lengths lognormal:400,0.8 --packing {packing}", packing=packing
            ),
        )
    if lengths is None:
        return ("none",)
    return PACKINGS if packing is None else _named(Text("packing"), packing, PACKINGS)


def search_tuning(question: TuningQuestion, on_candidate: OnCandidate | None = None) -> TuningPlan:
    """Answer a checked question; interrupted, with the best so far.

    Before anything that fits was simulated, that is the best by the quick score.

    Args:
        question: what `question_of_tuning` gave.
        on_candidate: told of each before it is simulated: number, how many, which.

    Raises:
        OverLimitError: nothing that fits keeps every limit.
        InvalidValueError: examples that no devices can share; says how many they could.
    """
    found, rejected = candidates(question)
    if not found:
        _refuse(question, rejected)
    scores = {each: estimate(question.size, question.seq, each) for each in found}
    order = _ordered(question, found, scores)
    simulator = Simulator(question)
    done = _simulated(question, simulator, order, scores, on_candidate)
    judged, short, stopped = done.judged, done.short, done.stopped
    rejected += done.rejected
    if done.over and not judged and not stopped:
        scored = ((each, scores[each].step_s, scores[each].peak_bytes) for each in found)
        exact = {each.candidate: each for each in (*done.over, *short)}
        tried = against_limits(scored, exact)
        raise nothing_within(question.model, question.limits, tried, question.steps)
    known = {each.words for each in rejected}
    known |= {_name(each.candidate) for each in judged} | ({_name(stopped)} if stopped else set())
    rejected += [
        left(question, each, scores[each].step_s, scores[each].peak_bytes)
        for each in found
        if _name(each) not in known
    ]
    best, ties = choose(judged, question.goal) if judged else (None, ())
    if stopped and not judged:
        quick = scores[stopped]
        peak = quick.peak_bytes
        best = by_score(Weighed, stopped, quick.step_s, peak, scored_bytes=peak)
        ties = (best,)
    short.sort(key=lambda each: each.peak_bytes / each.usable_bytes)
    would: tuple[Shortfall, ...] = ()
    complete = stopped is None
    if not best and short:
        try:
            would = would_fit(question, simulator, short[0])
        except KeyboardInterrupt:
            complete = False
    return TuningPlan(
        question=question,
        best=best,
        ties=ties,
        front=front(judged),
        judged=tuple(judged),
        short=tuple(short),
        would_fit=would,
        rejected=tuple(rejected),
        candidates=len(found),
        complete=complete,
        near=neighbours(question, best, (*judged, *short, *done.over), scores)
        if best and judged
        else (),
    )


def _refuse(question: TuningQuestion, rejected: Sequence[Rejected]) -> NoReturn:
    """Nothing can be: why, and the batches below and above that the devices can share."""
    devices = min(each.n_devices for each in question.clusters)
    low = question.global_batch // devices * devices
    batches = [batch for batch in (low, low + devices) if batch]
    near = Text(
        "A batch of {batches} can be split. Type: --global-batch {first}",
        batches=", ".join(map(str, batches)),
        first=batches[0],
    )
    raise InvalidValueError(
        Text("No plan was found that can be run."),
        rejected[-1].reason if rejected else "",
        "" if question.lengths else near,
    )


@dataclass(slots=True)
class _Done:
    """What was simulated.

    Attributes:
        judged, short, over: what fits within the limits, does not fit, breaks a limit.
        rejected: all that are out.
        stopped: at which it was interrupted; None where it was not.
    """

    judged: list[Weighed] = field(default_factory=list)
    short: list[Weighed] = field(default_factory=list)
    over: list[Weighed] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    stopped: Tuned | None = None


def _simulated(
    question: TuningQuestion,
    simulator: Simulator,
    order: Sequence[Tuned],
    scores: dict[Tuned, Estimate],
    on_candidate: OnCandidate | None,
) -> _Done:
    """The best by the quick score, simulated."""
    done = _Done()
    for tried, each in enumerate(order):
        if len(done.judged) == question.simulated or tried == 2 * question.simulated:
            break
        hopeless = scores[each].peak_bytes > HOPELESS * each.cluster.device.memory_usable_bytes
        if hopeless and (done.short or done.judged):
            break  # all that follow are fuller
        try:
            if on_candidate:
                on_candidate(len(done.judged) + 1, question.simulated, each)
            weighed = simulator.judge(each)
        except KeyboardInterrupt:
            done.stopped = each
            break
        except GpuscopeError as error:
            done.rejected.append(out(each, "layout", error.what))
            continue
        refused = verdict(question, each, weighed)
        if refused is None:
            done.judged.append(weighed)
        else:
            done.rejected.append(refused)
            (done.short if refused.kind == "memory" else done.over).append(weighed)
    return done


def _ordered(
    question: TuningQuestion, found: Sequence[Tuned], scores: dict[Tuned, Estimate]
) -> list[Tuned]:
    """What is likely to fit first, the best of each method, packing and device before others."""

    def rank(each: Tuned) -> tuple[bool, float, float, int]:
        score, usable = scores[each], each.cluster.device.memory_usable_bytes
        unlikely = probability_to_fit(score.peak_bytes, usable) < question.certainty
        over = beyond(question, each.cluster, score.step_s)
        value = quick_value(question.goal, each.cluster, score.step_s)
        return unlikely, over, score.peak_bytes / usable if unlikely else value, each.dimensions

    ordered = sorted(found, key=rank)
    first: dict[object, Tuned] = {}
    for each in ordered:
        if not rank(each)[0]:
            sort = each.tuning.method, each.packing, each.cluster.device.id
            first.setdefault(sort, each)
    heads = sorted(first.values(), key=rank)
    return heads + [each for each in ordered if each not in heads]


def _name(each: Tuned) -> str:
    return f"{each.cluster.name}: {each.words}"
