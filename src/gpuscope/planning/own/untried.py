"""A batch between the doublings, or beyond them, captured and simulated: `--why batch=24`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuscope.advice.registry import find
from gpuscope.advice.registry import plan as ordered
from gpuscope.document.quantities import Bytes, Number, Seconds
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError
from gpuscope.planning.own.score import TECHNIQUES, WRAPS
from gpuscope.planning.own.simulate import Simulator
from gpuscope.planning.own.types import Changed, OwnPlan, OwnQuestion, Weighed
from gpuscope.planning.verdicts import verdict

__all__ = ["untried_own"]


def untried_own(plan: OwnPlan, parts: Mapping[str, str]) -> tuple[tuple[str, str | Text], ...]:
    """The choice with this batch, and with changes that are named, simulated.

    Args:
        plan: the answer.
        parts: values by name: of "batch", and a lone word is a change.
    """
    best = plan.best
    batch, change = parts.get("batch", ""), parts.get("", "")
    known = change in ("", *WRAPS, *TECHNIQUES) and set(parts) <= {"batch", ""}
    if not (known and batch.isdecimal() and int(batch) > 0 and best.simulated):
        return ()
    mine = replace(best.candidate, batch=int(batch))
    if change in WRAPS:
        mine = replace(mine, share=change)
    elif change and change not in mine.techniques:
        other = (each for each in mine.techniques if find(each).group != find(change).group)
        mine = replace(mine, techniques=tuple(each.name for each in ordered((*other, change))))
    words = f"{mine.cluster.name}: {mine.words}"
    if mine.own_batch is None:
        return ((words, Text("This workload has no batch to vary.")),)
    try:
        found = Simulator(plan.question).judge(mine, 0.0)
    except GpuscopeError as error:
        return ((words, error.what),)
    told = Text(
        "Simulated now: {step} a step, {rate} samples/s, {peak} of {usable} on the fullest rank; "
        "the choice has {taken}, {most} samples/s and {held}. {why}",
        step=Seconds(found.step_s),
        rate=Number(mine.samples / found.step_s, ".3g"),
        peak=Bytes(found.peak_bytes),
        usable=Bytes(found.usable_bytes),
        taken=Seconds(best.step_s),
        most=Number(best.candidate.samples / best.step_s, ".3g"),
        held=Bytes(best.peak_bytes),
        why=_why(plan.question, mine, found, best),
    )
    return ((words, told),)


def _why(question: OwnQuestion, mine: Changed, found: Weighed, best: Weighed) -> str | Text:
    """What rules it out, or how it compares."""
    if question.global_batch not in (None, mine.samples):
        return Text(
            "Its step has {samples} samples, not the {whole} that were asked for.",
            samples=mine.samples,
            whole=question.global_batch,
        )
    refused = verdict(question, mine, found)
    if refused is not None:
        return refused.reason
    value, least = found.value(question.goal), best.value(question.goal)
    if value is None or not least:
        return ""
    return Text(
        "Of the goal's figure a sample takes {more} %. Batches are tried from a quarter to 64 "
        "times the code's own, by doubling.",
        more=Number(100 * (value / least - 1), "+.1f"),
    )
