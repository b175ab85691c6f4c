"""A plan in words and tables: the front, the choice, what is one step away, what is out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gpuscope.document.blocks import Cell, Column, Explanation, Section, Table
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.planning.dimensions.registry import DIMENSIONS
from gpuscope.planning.outlook import around, energy_and_co2, holders, one_step, rivals
from gpuscope.planning.score import weighed_of
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
)
from gpuscope.planning.types import Judged, Plan, Question
from gpuscope.planning.untried import foremost_of, speech_of_training, untried_training
from gpuscope.planning.why import what_became

__all__ = ["assumed", "commands", "explained"]

_ASSUMPTIONS = (
    Text(
        "Where a plan says nothing else, it trains with AdamW in bfloat16 mixed precision, "
        "eagerly, as PyTorch does."
    ),
    Text(
        "Ties: errors of candidates on one device are taken to correlate by 0.9; across devices "
        "not at all."
    ),
    PEAK,
)


def explained(plan: Plan, why: str | None = None, framework: str | None = None) -> Explanation:
    """The plan for a reader.

    Args:
        plan: the answer.
        why: "tp=4,pp=2": also list the candidates that have these, and what became of them.
        framework: also show what starts the best (`Plan.to`).

    Raises:
        UnknownNameError, UnsupportedError: as `Plan.to`.
        InvalidValueError: `why` names nothing that a candidate has.
    """
    question, best = plan.question, plan.best
    sections = [*kept(question.limits, best, question.steps), *_compared(plan)]
    sections += [out(plan.rejected, _judged_of(plan))]
    if why is not None:
        said = ((e.candidate.cluster, e.candidate.words, simulated_step(e)) for e in plan.judged)
        speech, untried = speech_of_training(), partial(untried_training, plan)
        foremost = partial(foremost_of, plan)
        sections.append(what_became(why, speech, said, plan.rejected, untried, foremost))
    if framework is not None:
        sections.append(starts(framework, plan.to(framework), "toml"))
    return Explanation(
        "plan",
        Text(
            "{model}: {batch} sequences of {seq} tokens a step",
            model=question.model,
            batch=question.global_batch,
            seq=question.seq,
        ),
        _summary(plan),
        tuple(sections),
        commands(best, question.model, question.seq),
        (),
        assumed(question, best),
    )


def _compared(plan: Plan) -> list[Section]:
    """The choice among what was simulated; nothing where nothing was."""
    best = plan.best
    if not best.simulated:
        return []
    return [
        Section(Text("The front"), (_table(Text("No other is better in all"), plan, plan.front),)),
        rivals(plan.judged, plan.front, best),
        Section(Text("All that were simulated"), (_simulated(plan),)),
        one_step(plan.near, plan.best.candidate.words),
        holders(best, best.candidate.words),
        *around(plan.judged, best, plan.question.goal, plan.least_s),
    ]


def _summary(plan: Plan) -> tuple[Text, ...]:
    best, asked = plan.best, plan.question
    steps = asked.steps
    lines = [
        *take(best, best.candidate.cluster, best.candidate.words),
        *of_the_whole(steps, best),
        *energy_and_co2(best, steps, asked.grid),
        *tied(plan.ties, plan.complete),
    ]
    if plan.cut is not None:
        lines.append(
            Text(
                "{count} of {wanted} plans were simulated, in the {seconds} s of processor time "
                "that there are for it; all others are composed. For longer: --within {more}",
                count=plan.cut,
                wanted=asked.simulated,
                seconds=Number(asked.within_s, ",.0f"),
                more=Number(5 * asked.within_s, ".0f"),
            )
        )
    for name, value in best.candidate.more:
        told = DIMENSIONS.get(name).told
        if told is not None:
            lines.append(told(weighed_of(asked, best.candidate), value))
    if plan.lightened:
        usual = DIMENSIONS.get(plan.lightened).values[0]
        lines.append(
            Text("Nothing was found that fits with {name} {value}.", name=plan.lightened,
                 value=usual)
        )  # fmt: skip
    return tuple(lines)


def _table(title: Text, plan: Plan, rows: Sequence[Judged]) -> Table:
    columns = (
        Column(Text("devices")),
        Column(Text("plan")),
        Column(Text("step"), "s"),
        Column(Text("±"), "percent"),
        Column(Text("quick score"), "s"),
        Column(Text("peak memory"), "bytes"),
        Column(Text("energy"), "J"),
        Column(Text("cost"), "USD"),
    )
    cells: list[tuple[Cell, ...]] = [
        (
            each.candidate.cluster.name,
            each.candidate.words,
            each.step_s,
            (each.high_s - each.low_s) / 2 / each.step_s,
            each.scored_s,
            each.peak_bytes,
            each.energy_j,
            each.usd,
        )
        for each in rows
    ]
    chosen = tuple(n for n, each in enumerate(rows) if each is plan.best)
    return Table(title, columns, tuple(cells), chosen)


def _simulated(plan: Plan) -> Table:
    ordered = sorted(plan.judged, key=lambda each: each.value(plan.question.goal) or 0.0)
    return _table(Text("The best for the goal first"), plan, ordered)


def _judged_of(plan: Plan) -> Text:
    return how_many(plan.candidates, len(plan.judged))


def assumed(question: Question, taken: Judged) -> tuple[Text, ...]:
    """What an answer rests on: habits, the cluster of the plan that is taken, prices."""
    return *_ASSUMPTIONS, *bound_to(taken.candidate.cluster, question.clusters)


def commands(best: Judged, model: str, seq: int) -> tuple[str, ...]:
    """What predicts the choice in full; nothing where it has what `predict` has no option for."""
    if best.candidate.more:
        return ()
    asked, cluster = best.candidate.asked, best.candidate.cluster
    given = [f"gpuscope predict {model} --task train --on {cluster.n_devices}x{cluster.device.id}"]
    given.append(f"--seq {seq} --global-batch {asked.global_batch} --microbatch {asked.microbatch}")
    for name in ("tp", "pp", "cp", "ep"):
        if getattr(asked, name) != 1:
            given.append(f"--{name} {getattr(asked, name)}")
    given.append(f"--fsdp {asked.fsdp}")
    if asked.pp != 1:
        given.append(f"--schedule {asked.schedule}")
    if best.candidate.plan.virtual > 1:
        given.append(f"--virtual {asked.virtual}")
    if asked.recompute != "none":
        given.append(f"--recompute {asked.recompute}")
    return (" ".join(given),)
