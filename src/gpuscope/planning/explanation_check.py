"""An existing plan in words: what it takes, whether it fits, what is one decision away."""

from __future__ import annotations

from typing import Any

from gpuscope.document.blocks import Cell, Column, Explanation, Paragraph, Section, Table
from gpuscope.document.quantities import Bytes, Number, Seconds
from gpuscope.document.text import Text
from gpuscope.planning.check import Checked
from gpuscope.planning.explanation import assumed, commands
from gpuscope.planning.sentences import of_the_whole, what_it_holds
from gpuscope.planning.types import Judged, Question

__all__ = ["decisions", "explained_check", "verdict"]


def explained_check(checked: Checked[Question, Judged]) -> Explanation:
    """The judgement for a reader.

    Args:
        checked: what `gpuscope.planning.check.check` found.
    """
    question, plan = checked.question, checked.plan
    title = Text(
        "{model}: {batch} sequences of {seq} tokens a step",
        model=question.model,
        batch=question.global_batch,
        seq=question.seq,
    )
    return Explanation(
        "plan-check",
        title,
        verdict(checked),
        (decisions(checked),),
        commands(plan, question.model, question.seq),
        (),
        assumed(question, plan),
    )


def verdict(checked: Checked[Any, Any]) -> tuple[Text, ...]:
    """What the plan takes, whether it fits, and whether a neighbour is surely better."""
    plan, asked = checked.plan, checked.question
    goal = asked.goal
    told = [
        Text(
            "{cluster}: {plan}. A step takes {step} (80 % sure: {low} to {high}).",
            cluster=plan.candidate.cluster.name,
            plan=plan.candidate.words,
            step=Seconds(plan.step_s),
            low=Seconds(plan.low_s),
            high=Seconds(plan.high_s),
        ),
        what_it_holds(plan),
        *of_the_whole(asked.steps, plan),
    ]
    better = checked.better
    if better is None and checked.fits:
        told.append(Text("No simulated neighbour that fits is surely better."))
    elif better is None:
        told.append(Text("It does not fit, and no simulated neighbour does."))
    else:
        value, mine = better[1].value(goal), plan.value(goal)
        assert value is not None
        assert mine is not None
        told.append(
            Text(
                "Better: {changed}: {more} % of the goal's figure, {peak}.",
                changed=better[0],
                more=Number((value / mine - 1) * 100, "+.0f"),
                peak=Bytes(better[1].peak_bytes),
            )
        )
    if not checked.complete:
        told.append(Text("It was interrupted: these are the neighbours so far."))
    return tuple(told)


def decisions(checked: Checked[Any, Any]) -> Section:
    """The neighbours that were simulated."""
    away = Text("One decision away")
    if not checked.neighbours:
        return Section(away, (Paragraph(Text("No plan that can be is one decision away.")),))
    goal, mine = checked.question.goal, checked.plan.value(checked.question.goal)
    rows: list[tuple[Cell, ...]] = []
    for change, each in checked.neighbours:
        value = each.value(goal)
        more = None if value is None or not mine else value / mine - 1
        rows.append((change, each.step_s, more, each.peak_bytes, each.fits))
    columns = (
        Column(Text("decision")),
        Column(Text("step"), "s"),
        Column(Text("the goal's figure"), "percent"),
        Column(Text("peak memory"), "bytes"),
        Column(Text("likely to fit"), "percent"),
    )
    note = Text("{count} more, slower by the quick score, were not simulated.", count=checked.left)
    table = Table(Text("The best first"), columns, tuple(rows), note=note if checked.left else None)
    return Section(away, (table,))
