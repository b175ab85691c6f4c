"""A fine-tuning plan in words and tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf

from gpuscope.document.blocks import Cell, Column, Explanation, Section, Table
from gpuscope.document.quantities import Bytes, Percent, Seconds
from gpuscope.document.text import Text
from gpuscope.hardware import Cluster
from gpuscope.planning.outlook import around, energy_and_co2, holders, one_step, rivals
from gpuscope.planning.sentences import (
    PEAK,
    bound_to,
    how_many,
    kept,
    of_the_whole,
    out,
    simulated_step,
    starts,
    take,
    tied,
    what_it_holds,
)
from gpuscope.planning.tuning.types import Shortfall, TuningPlan, TuningQuestion, Weighed
from gpuscope.planning.tuning.untried import SPEECH, untried_tuning
from gpuscope.planning.why import what_became

__all__ = ["assumed", "explained_tuning", "title_of"]

_ASSUMPTIONS = (
    Text(
        "Weights are in bfloat16; adapters in float32 (bfloat16 under FSDP), as peft makes them. "
        "QLoRA keeps blocks in NF4 with double quantisation; on a whole copy what is left is "
        "widened to float32, as peft.prepare_model_for_kbit_training does."
    ),
    Text(
        "Paged optimizer states of 100,000 elements and more are not counted as device memory: "
        "the driver may move them there."
    ),
    PEAK,
)

_OF_LENGTHS = (
    Text(
        "Examples are drawn at random; all devices wait for the longest row of a micro-batch. Time "
        "is that of usual rows, memory that of the longest."
    ),
    Text(
        "packing padded: a row an example, with a mask beside attention as transformers makes it. "
        "flash: whole examples in rows of the sequence's length, attention by FlashAttention-2's "
        "kernel for lengths that vary. mask: the same rows, a mask between examples."
    ),
    Text("A step has so many packed rows as the batch's examples fill on average."),
)


def explained_tuning(
    plan: TuningPlan, why: str | None = None, framework: str | None = None
) -> Explanation:
    """The plan for a reader.

    Args:
        plan: the answer.
        why: "qlora,microbatch 1": also list the candidates that have these, and what became of
            them.
        framework: also show what starts the best (`TuningPlan.to`).

    Raises:
        UnknownNameError, UnsupportedError, DoesNotFitError: as `TuningPlan.to`.
        InvalidValueError: `why` names nothing that a candidate has.
    """
    question = plan.question
    script = None if framework is None else starts(framework, plan.to(framework), "python")
    shown = plan.best or next(iter(plan.short), None)
    sections: list[Section] = []
    if plan.best is not None:
        sections += kept(question.limits, plan.best, question.steps)
    if plan.judged:
        ordered = sorted(plan.judged, key=lambda each: each.value(question.goal) or 0.0)
        sections.append(
            Section(
                Text("Plans that fit"),
                (_table(Text("The best for the goal first"), plan, ordered),),
            )
        )
    simulated = shown is not None and shown.simulated
    if plan.best is not None and simulated:
        sections.append(rivals(plan.judged, plan.front, plan.best))
    if plan.short:
        sections.append(
            Section(
                Text("What does not fit"),
                (_table(Text("The least short first"), plan, plan.short),),
            )
        )
    if shown is not None and simulated:
        sections.append(holders(shown, shown.candidate.words))
    if plan.best is not None and simulated:
        sections += around(plan.judged, plan.best, question.goal)
    if plan.near and plan.best is not None:
        sections.append(one_step(plan.near, plan.best.candidate.words))
    if plan.would_fit:
        sections.append(Section(Text("What would make it fit"), (_fitting(plan.would_fit),)))
    note = how_many(plan.candidates, len(plan.judged))
    sections.append(out(plan.rejected, note))
    if why is not None:
        said = ((e.candidate.cluster, e.candidate.words, simulated_step(e)) for e in plan.judged)
        sections.append(
            what_became(why, SPEECH, said, plan.rejected, partial(untried_tuning, plan))
        )
    if script is not None:
        sections.append(script)
    taken = shown.candidate.cluster if shown else None
    return Explanation(
        "plan",
        title_of(question),
        _summary(plan),
        tuple(sections),
        (),
        (),
        assumed(question, taken),
    )


def assumed(question: TuningQuestion, cluster: Cluster | None) -> tuple[Text, ...]:
    """What an answer rests on: how examples lie, how weights are kept, the cluster, prices."""
    lengths = _OF_LENGTHS if question.lengths else ()
    return *lengths, *_ASSUMPTIONS, *bound_to(cluster, question.clusters)


def title_of(question: TuningQuestion) -> Text:
    """What is asked, in words."""
    if question.lengths:
        return Text(
            "{model}: fine-tuning, {batch} examples of {mean} tokens on average, {seq} at most",
            model=question.model,
            batch=question.global_batch,
            mean=round(question.example_tokens),
            seq=question.seq,
        )
    return Text(
        "{model}: fine-tuning, {batch} sequences of {seq} tokens a step",
        model=question.model,
        batch=question.global_batch,
        seq=question.seq,
    )


def _summary(plan: TuningPlan) -> tuple[Text, ...]:
    best, asked = plan.best, plan.question
    if best is None:
        return _nothing_fits(plan)
    steps = asked.steps
    if not best.simulated:
        return (*take(best, best.candidate.cluster, best.candidate.words), *tied((), False))
    lines = [
        Text(
            "It fits: take {cluster}: {plan}. A step takes {step} (80 % sure: {low} to {high}).",
            cluster=best.candidate.cluster.name,
            plan=best.candidate.words,
            step=Seconds(best.step_s),
            low=Seconds(best.low_s),
            high=Seconds(best.high_s),
        ),
        what_it_holds(best),
        *_packed(plan),
        *of_the_whole(steps, best),
        *energy_and_co2(best, steps, asked.grid),
        *tied(plan.ties, plan.complete),
    ]
    return tuple(lines)


def _packed(plan: TuningPlan) -> tuple[Text, ...]:
    """The best against the best of the other ways to lay examples in rows."""
    best, goal = plan.best, plan.question.goal
    if best is None or best.candidate.rows is None:
        return ()
    packing = best.candidate.packing
    others = [e for e in plan.judged if e.candidate.packing != packing]
    quickest = min(others, key=lambda each: each.value(goal) or inf, default=None)
    filled = Text(
        "Of the tokens that it computes {filled} are examples'.",
        filled=Percent(best.candidate.rows.filled),
    )
    if quickest is None or quickest.candidate.rows is None:
        return (filled,)
    return (
        filled,
        Text(
            "The best with packing {other} takes {step} a step ({filled} examples'): {plan}.",
            other=quickest.candidate.packing,
            step=Seconds(quickest.step_s),
            filled=Percent(quickest.candidate.rows.filled),
            plan=quickest.candidate.words,
        ),
    )


def _nothing_fits(plan: TuningPlan) -> tuple[Text, ...]:
    if not plan.short:
        told = Text("No plan was found that can be run.")
        return (told, *(each.reason for each in plan.rejected[:1] if isinstance(each.reason, Text)))
    least = plan.short[0]
    lines = [
        Text(
            "It does not fit. The least short is {cluster}: {plan}, whose fullest rank holds "
            "{peak} of {usable} ({fits} likely to fit).",
            cluster=least.candidate.cluster.name,
            plan=least.candidate.words,
            peak=Bytes(least.peak_bytes),
            usable=Bytes(least.usable_bytes),
            fits=Percent(least.fits),
        )
    ]
    first = next((e for e in plan.would_fit if e.fits >= plan.question.certainty), None)
    if first is not None:
        lines.append(
            Text(
                "This would: {cluster}: {plan}, {seq} tokens a sequence ({peak}).",
                cluster=first.candidate.cluster.name,
                plan=first.candidate.words,
                seq=first.seq,
                peak=Bytes(first.peak_bytes),
            )
        )
    return tuple(lines)


def _table(title: Text, plan: TuningPlan, rows: Sequence[Weighed]) -> Table:
    tokens = plan.question.global_batch * plan.question.example_tokens
    columns = (
        Column(Text("devices")),
        Column(Text("plan")),
        Column(Text("step"), "s"),
        Column(Text("a token"), "s"),
        Column(Text("±"), "percent"),
        Column(Text("peak memory"), "bytes"),
        Column(Text("by the quick score"), "bytes"),
        Column(Text("likely to fit"), "percent"),
        Column(Text("energy"), "J"),
        Column(Text("cost"), "USD"),
    )
    cells: list[tuple[Cell, ...]] = [
        (
            each.candidate.cluster.name,
            each.candidate.words,
            each.step_s,
            each.step_s / tokens,
            (each.high_s - each.low_s) / 2 / each.step_s,
            each.peak_bytes,
            each.scored_bytes,
            each.fits,
            each.energy_j,
            each.usd,
        )
        for each in rows
    ]
    chosen = tuple(n for n, each in enumerate(rows) if each is plan.best)
    return Table(title, columns, tuple(cells), chosen)


def _fitting(found: Sequence[Shortfall]) -> Table:
    columns = (
        Column(Text("devices")),
        Column(Text("plan")),
        Column(Text("tokens")),
        Column(Text("peak memory"), "bytes"),
        Column(Text("likely to fit"), "percent"),
        Column(Text("figure")),
    )
    rows = tuple(
        (
            each.candidate.cluster.name,
            each.candidate.words,
            each.seq,
            each.peak_bytes,
            each.fits,
            Text("simulated") if each.simulated else Text("quick score"),
        )
        for each in found
    )
    return Table(Text("One change from the least short; of each sort the mildest"), columns, rows)
