"""Fine-tuning: candidates, their score, the best of them simulated, one chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gpuscope.document.quantities import Bytes, Percent, Seconds
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InvalidValueError, UnknownNameError
from gpuscope.hardware.grid import grid_factor
from gpuscope.planning.choice import choose, front
from gpuscope.planning.interrupted import by_score
from gpuscope.planning.question import check_goal, clusters_of, size_of
from gpuscope.planning.simulate import probability_to_fit
from gpuscope.planning.tuning.nearest import would_fit
from gpuscope.planning.tuning.score import Estimate, estimate
from gpuscope.planning.tuning.simulate import Simulator
from gpuscope.planning.tuning.space import candidates
from gpuscope.planning.tuning.types import Shortfall, Tuned, TuningPlan, TuningQuestion, Weighed
from gpuscope.planning.types import Rejected, steps_of
from gpuscope.program.models.rows import PACKINGS, lengths_of
from gpuscope.program.models.settings import positive
from gpuscope.program.models.tuning import METHODS, projections_of

__all__ = ["question_of_tuning", "search_tuning"]

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
) -> TuningQuestion:
    """Check everything; arguments as `gpuscope.planning.question.question_of`, and:

    Args:
        method: "lora", or several: "lora,qlora,full".
        rank: of the adapters.
        targets: which products get one: "all-linear", "attention", "qv", or "q,k,up".
        lengths: of examples, see `gpuscope.program.models.rows.lengths_of`; None: all have
            `seq` tokens.
        packing: how they lie in rows: "padded", "flash", "mask", or several; None: all of them.

    Raises:
        UnknownNameError, InvalidValueError, UnsupportedError: as there.
    """
    check_goal(goal)
    for name, value in (
        ("global_batch", global_batch),
        ("seq", seq),
        ("simulate", simulate),
        ("rank", rank),
    ):
        positive(name, value)
    methods = _named(Text("method"), method, METHODS)
    packings = _packings(lengths, packing)
    steps_of(tokens, global_batch, seq)  # refused before anything is captured
    return TuningQuestion(
        model=model,
        size=size_of(model),
        clusters=clusters_of(on, devices, prices, goal, device_set),
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
    )


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


def _packings(lengths: str | None, packing: str | None) -> tuple[str, ...]:
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
    """
    found, rejected = candidates(question)
    scores = {each: estimate(question.size, question.seq, each) for each in found}
    order = _ordered(question, found, scores)
    simulator = Simulator(question)
    judged, short, refused, stopped = _simulated(question, simulator, order, scores, on_candidate)
    rejected += refused
    done = {each.candidate for each in (*judged, *short)} | ({stopped} if stopped else set())
    rejected += _left(found, scores, done, {each.words for each in rejected})
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
    )


def _simulated(
    question: TuningQuestion,
    simulator: Simulator,
    order: Sequence[Tuned],
    scores: dict[Tuned, Estimate],
    on_candidate: OnCandidate | None,
) -> tuple[list[Weighed], list[Weighed], list[Rejected], Tuned | None]:
    """What fits, what does not, what is out, and at which it was interrupted."""
    judged, short, out = list[Weighed](), list[Weighed](), list[Rejected]()
    for tried, each in enumerate(order):
        if len(judged) == question.simulated or tried == 2 * question.simulated:
            break
        hopeless = scores[each].peak_bytes > HOPELESS * each.cluster.device.memory_usable_bytes
        if hopeless and (short or judged):
            break  # all that follow are fuller
        try:
            if on_candidate:
                on_candidate(len(judged) + 1, question.simulated, each)
            weighed = simulator.judge(each)
        except KeyboardInterrupt:
            return judged, short, out, each
        except GpuscopeError as error:
            out.append(Rejected(_name(each), "layout", error.what))
            continue
        if weighed.fits < question.certainty:
            short.append(weighed)
            out.append(Rejected(_name(each), "memory", _too_full(weighed)))
        else:
            judged.append(weighed)
    return judged, short, out, None


def _ordered(
    question: TuningQuestion, found: Sequence[Tuned], scores: dict[Tuned, Estimate]
) -> list[Tuned]:
    """What is likely to fit first, the best of each method, packing and device before others."""

    def rank(each: Tuned) -> tuple[bool, float, int]:
        score, usable = scores[each], each.cluster.device.memory_usable_bytes
        unlikely = probability_to_fit(score.peak_bytes, usable) < question.certainty
        value = score.peak_bytes / usable if unlikely else _value(question, each, score.step_s)
        return unlikely, value, each.dimensions

    ordered = sorted(found, key=rank)
    first: dict[object, Tuned] = {}
    for each in ordered:
        if not rank(each)[0]:
            sort = each.tuning.method, each.packing, each.cluster.device.id
            first.setdefault(sort, each)
    heads = sorted(first.values(), key=rank)
    return heads + [each for each in ordered if each not in heads]


def _value(question: TuningQuestion, each: Tuned, step_s: float) -> float:
    """What the goal makes small, by the quick score."""
    if question.goal == "cost":
        return step_s * (each.cluster.price_usd_per_hour or float("inf"))
    if question.goal == "energy":
        return step_s * each.devices * (each.cluster.device.tdp_w or 0.0)
    return step_s


def _left(
    found: Sequence[Tuned], scores: dict[Tuned, Estimate], done: set[Tuned], out: set[str]
) -> list[Rejected]:
    """Why what was not simulated was not."""
    left = []
    for each in found:
        if each in done or _name(each) in out:
            continue
        score, usable = scores[each], each.cluster.device.memory_usable_bytes
        if score.peak_bytes > usable:
            reason = Text(
                "By the quick score its fullest rank takes {peak} of {usable}.",
                peak=Bytes(score.peak_bytes),
                usable=Bytes(usable),
            )
            left.append(Rejected(_name(each), "memory", reason))
        else:
            reason = Text(
                "Not simulated: the quick score, {estimate} a step, has others before it.",
                estimate=Seconds(score.step_s),
            )
            left.append(Rejected(_name(each), "not_simulated", reason))
    return left


def _name(each: Tuned) -> str:
    return f"{each.cluster.name}: {each.words}"


def _too_full(weighed: Weighed) -> Text:
    return Text(
        "Its fullest rank takes {peak} of {usable}: {fits} likely to fit.",
        peak=Bytes(weighed.peak_bytes),
        usable=Bytes(weighed.usable_bytes),
        fits=Percent(weighed.fits),
    )
