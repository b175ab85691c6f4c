"""A training that no candidate is, weighed beside the choice: "precision=fp8", "tp=3"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gpuscope.document.quantities import Bytes, Seconds
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError
from gpuscope.planning.composed import composed_s
from gpuscope.planning.dimensions.registry import DIMENSIONS, lacking, unlike
from gpuscope.planning.held import held_bytes
from gpuscope.planning.score import score
from gpuscope.planning.space import candidates, refusal
from gpuscope.planning.tables import Tables
from gpuscope.planning.types import Candidate, Plan
from gpuscope.planning.why import Speech
from gpuscope.program.models.parallel.checks import plan_of
from gpuscope.program.models.parallel.options import FSDP, RECOMPUTE, SCHEDULES, ParallelOptions

__all__ = ["foremost_of", "speech_of_training", "untried_training", "weighed"]

_COUNTS = ("dp", "tp", "pp", "cp", "ep", "microbatch", "virtual")
_WORDS = ("fsdp", "schedule", "recompute")


def speech_of_training() -> Speech:
    """How candidates of a training are spoken about."""
    DIMENSIONS.load()
    usual = dict.fromkeys((*_COUNTS[:5], "virtual"), "1") | {
        "schedule": "1f1b",
        "recompute": "none",
    }
    usual |= {each.name: each.values[0] for each in DIMENSIONS}
    names = ", ".join(sorted({*_COUNTS, *_WORDS, *(each.name for each in DIMENSIONS)}))
    values = {"fsdp": FSDP, "schedule": SCHEDULES, "recompute": RECOMPUTE}
    values |= {each.name: each.values for each in DIMENSIONS if len(each.values) > 1}
    return Speech(
        names, "--why tp=4,pp=2", usual, {"schedule": SCHEDULES}, values=values, numbers=_COUNTS
    )


def foremost_of(plan: Plan, meant: Callable[[str], bool]) -> tuple[tuple[str, str], ...]:
    """The best by the quick score of those that are meant, composed of what its blocks cost.

    Args:
        plan: the answer.
        meant: whether a candidate in words is.
    """
    question = plan.question
    alike = [
        (each, words)
        for each in candidates(question)[0]
        if meant(words := f"{each.cluster.name}: {each.words}")
    ]
    if not alike:
        return ()
    scores = score(question, [each for each, _ in alike])
    usable = [each.cluster.device.memory_usable_bytes for each, _ in alike]
    places = range(len(alike))
    at = min(places, key=lambda n: (scores.estimate_bytes[n] > usable[n], scores.estimate_s[n]))
    each, words = alike[at]
    try:
        block = Tables(question).of(each)
    except GpuscopeError:
        return ()
    told = Text(
        "Not simulated. Composed of what its blocks cost: {step} a step, {peak} of {usable} on its "
        "fullest rank; the choice has {taken} and {held}.",
        step=Seconds(composed_s(question, each, block)),
        peak=Bytes(held_bytes(question, each, block)),
        usable=Bytes(usable[at]),
        taken=Seconds(plan.best.step_s),
        held=Bytes(plan.best.peak_bytes),
    )
    return ((words, told),)


def untried_training(plan: Plan, parts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The choice with these in place of its own, by the quick score.

    Args:
        plan: the answer.
        parts: values by name; a lone word is a value of any dimension that has it.
    """
    best = plan.best.candidate
    words = f"{best.cluster.name}: " + ", ".join(f"{n} {v}".strip() for n, v in parts.items())
    beside, layout = dict(best.more), dict[str, Any]()
    for name, value in parts.items():
        dimension = next((e for e in DIMENSIONS if name == e.name or value in e.values), None)
        if name in _COUNTS and value.isdigit():
            layout[name] = int(value)
        elif name in _WORDS:
            layout[name] = value
        elif dimension is not None and name in ("", dimension.name):
            beside[dimension.name] = value
        else:
            return ()
    try:
        return (_weighed(plan, words, layout, beside),)
    except GpuscopeError as error:
        return ((words, error.what),)


def _weighed(
    plan: Plan, words: str, layout: Mapping[str, Any], beside: Mapping[str, str]
) -> tuple[str, str]:
    """What the choice would be with another layout, or something beside it.

    Raises:
        GpuscopeError: it cannot be.
    """
    question, best = plan.question, plan.best.candidate
    plain = replace(best, more=()).asked
    degrees = any(name in layout for name in ("tp", "pp", "cp", "ep"))
    freed: dict[str, Any] = {"dp": None} if degrees and "dp" not in layout else {}
    if "pp" in layout and "fsdp" not in layout:
        freed["fsdp"] = None
    asked: ParallelOptions = replace(plain, **{**freed, **layout})
    split = plan_of(question.size, question.seq, asked)
    more = tuple(sorted((n, v) for n, v in beside.items() if v != DIMENSIONS.get(n).values[0]))
    for name, value in more:
        lacks = lacking(DIMENSIONS.get(name), value, question.size, best.cluster.device)
        if lacks is not None:
            return words, lacks
    each = Candidate(best.cluster, split, more)
    full = f"{best.cluster.name}: {each.words}"
    cannot = unlike(split, more) or refusal(question)(each)
    if cannot is not None:
        return full, cannot
    step_s, peak = weighed(plan, each)
    told = Text(
        "Not tried. By the quick score, scaled by what it was off for the choice: {step} a step, "
        "{peak} of {usable} on its fullest rank; the choice has {taken} and {held}.",
        step=Seconds(step_s),
        peak=Bytes(peak),
        usable=Bytes(plan.best.usable_bytes),
        taken=Seconds(plan.best.step_s),
        held=Bytes(plan.best.peak_bytes),
    )
    return full, told


def weighed(plan: Plan, each: Candidate) -> tuple[float, float]:
    """Seconds of a step and bytes of the fullest rank, from the choice's by the quick score.

    Another cut of a pipeline, and of experts, is weighed by composed steps: the score takes stages
    to be equal, and does not know the experts' messages.

    Raises:
        GpuscopeError: a block that cannot be recorded.
    """
    question, best = plan.question, plan.best
    scores = score(question, [best.candidate, each])
    longer = float(scores.estimate_s[1] / scores.estimate_s[0])
    if {"stages", "etp"} & set(dict(each.more)):
        tables = Tables(question)
        mine, other = (composed_s(question, e, tables.of(e)) for e in (best.candidate, each))
        longer = other / mine
    fuller = float(scores.estimate_bytes[1] / scores.estimate_bytes[0])
    return best.step_s * longer, best.peak_bytes * fuller
