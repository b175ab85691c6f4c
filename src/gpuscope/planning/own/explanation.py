"""A plan of a user's own code in words and tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gpuscope.document.blocks import Axis, Cell, Column, Explanation, Lines, Section, Table
from gpuscope.document.quantities import Number, Seconds
from gpuscope.document.text import Text
from gpuscope.planning.outlook import against, around, energy_and_co2, holders, one_step
from gpuscope.planning.own.types import OwnPlan, Weighed
from gpuscope.planning.own.untried import untried_own
from gpuscope.planning.sentences import (
    PEAK,
    bound_to,
    how_many,
    kept,
    out,
    simulated_step,
    starts,
    take,
    tied,
)
from gpuscope.planning.why import Speech, what_became

__all__ = ["explained_own"]

_ASSUMPTIONS = (
    Text("Every device's process reads samples of its own. Steps are compared by the sample."),
    Text(
        "Another batch, or more devices, is another recipe; lower precision other rounding: check "
        "the loss."
    ),
    PEAK,
)

SPEECH = Speech("ddp, fsdp, fsdp-kept, batch, bf16-autocast, ...", "--why fsdp,batch=8")


def explained_own(
    plan: OwnPlan, why: str | None = None, framework: str | None = None
) -> Explanation:
    """The plan for a reader.

    Args:
        plan: the answer.
        why: "fsdp,batch=8": also list the candidates that have these, and what became of them; or
            the name of a change that was not combined.
        framework: what starts the best is for this (`OwnPlan.to`); None: torchrun.

    Raises:
        UnknownNameError, UnsupportedError: as `OwnPlan.to`.
        InvalidValueError: `why` names nothing that a candidate has.
    """
    question, best = plan.question, plan.best
    note = how_many(plan.candidates, len(plan.judged))
    sections = [*kept(question.limits, best, None), *_compared(plan), out(plan.rejected, note)]
    if why is not None:
        said = ((e.candidate.cluster, e.candidate.words, simulated_step(e)) for e in plan.judged)
        untried = partial(untried_own, plan)
        sections.append(what_became(why, SPEECH, said, plan.rejected, untried))
    framework = framework or "torchrun"
    sections.append(starts(framework, plan.to(framework), "python"))
    return Explanation(
        "plan",
        Text("{target}: how to run it", target=question.target),
        _summary(plan),
        tuple(sections),
        (_next(plan),),
        (),
        (*_ASSUMPTIONS, *bound_to(best.candidate.cluster, question.clusters)),
    )


def _summary(plan: OwnPlan) -> tuple[Text, ...]:
    best, before = plan.best, plan.before
    lines = [*take(best, best.candidate.cluster, best.candidate.words)]
    if before is not None:
        lines.append(
            Text(
                "As it is, a step takes {step} and holds {share} % of a device's memory; the plan "
                "works through {times} times the samples in the same time.",
                step=Seconds(before.step_s),
                share=Number(100 * before.peak_bytes / before.usable_bytes, ".0f"),
                times=Number(_rate(best) / _rate(before), ".2f"),
            )
        )
    lines += energy_and_co2(best, None, plan.question.grid)
    return (*lines, *tied(plan.ties, plan.complete))


def _compared(plan: OwnPlan) -> list[Section]:
    """The choice among what was simulated; nothing where nothing was."""
    best, goal = plan.best, plan.question.goal
    if not best.simulated:
        return []
    ordered = sorted(plan.judged, key=lambda each: each.value(goal) or 0.0)
    return [
        Section(Text("All against all"), (_against(plan),)),
        Section(Text("All that were simulated"), (_table(plan, ordered),)),
        one_step(plan.near, best.candidate.words),
        holders(best, best.candidate.words),
        *around(plan.judged, best, goal),
    ]


def _against(plan: OwnPlan) -> Lines:
    """What a sample takes, with its interval, against what it costs."""
    priced = all(each.usd is not None for each in plan.judged)
    across = Axis(Text("cost of a sample"), "USD", True)
    if not priced:
        across = Axis(Text("devices x seconds of a sample"), "s", True)

    def x(each: Weighed) -> float:
        if priced:
            return each.value("cost") or 0.0
        return each.candidate.devices * _seconds(each)

    return against(
        Text("A sample's time against its cost; each bar is an 80 % interval"),
        across,
        Axis(Text("a sample"), "s"),
        [(x(each), _seconds(each)) for each in plan.judged],
        [
            (x(e), e.low_s / e.candidate.samples, e.high_s / e.candidate.samples)
            for e in plan.judged
        ],
        [(x(each), _seconds(each)) for each in plan.front],
        (x(plan.best), _seconds(plan.best)),
    )


def _seconds(each: Weighed) -> float:
    """Of a sample."""
    return each.step_s / each.candidate.samples


def _next(plan: OwnPlan) -> str:
    """What says more about the changes of the choice."""
    cluster = plan.best.candidate.cluster
    where = f"{cluster.n_devices}x{cluster.device.id}"
    return f"gpuscope advise {plan.question.target} --on {where} --allow recipe"


def _rate(each: Weighed) -> float:
    """Samples a second."""
    return each.candidate.samples / each.step_s


def _table(plan: OwnPlan, rows: Sequence[Weighed]) -> Table:
    columns = (
        Column(Text("devices")),
        Column(Text("plan")),
        Column(Text("samples/s")),
        Column(Text("step"), "s"),
        Column(Text("±"), "percent"),
        Column(Text("quick score"), "s"),
        Column(Text("peak memory"), "bytes"),
        Column(Text("energy a sample"), "J"),
        Column(Text("a million samples"), "USD"),
    )
    cells: list[tuple[Cell, ...]] = [
        (
            each.candidate.cluster.name,
            each.candidate.words,
            _rate(each),
            each.step_s,
            (each.high_s - each.low_s) / 2 / each.step_s,
            each.scored_s,
            each.peak_bytes,
            each.value("energy"),
            None if each.usd is None else 1e6 * each.usd / each.candidate.samples,
        )
        for each in rows
    ]
    chosen = tuple(n for n, each in enumerate(rows) if each is plan.best)
    return Table(Text("The best for the goal first"), columns, tuple(cells), chosen)
