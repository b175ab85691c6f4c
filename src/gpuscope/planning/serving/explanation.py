"""A serving plan in words and tables."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import cast

from gpuscope.document.blocks import Cell, Code, CodeLine, Column, Explanation, Section, Table
from gpuscope.document.quantities import Number, Percent, Seconds, Usd
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.planning.prices import told
from gpuscope.planning.serving.launch import launch_line
from gpuscope.planning.serving.types import Offered, ServingPlan

__all__ = ["explained_serving"]

MOST_ROWS = 20
"""Rejected candidates that `--why` lists."""

_ASSUMPTIONS = (
    Text(
        "Requests come at random (Poisson), with mean lengths; a latency is what nine in ten get."
    ),
    Text(
        "Errors are taken to be log-normal, 0.25 of TPOT and of what can be served, 0.54 of TTFT, "
        "and to go together: the least probability counts."
    ),
)

_KINDS = {
    "layout": Text("cannot be split so"),
    "memory": Text("does not fit"),
    "overloaded": Text("cannot keep up"),
    "not_simulated": Text("others had the better quick score"),
}


def explained_serving(
    plan: ServingPlan, why: str | None = None, framework: str | None = None
) -> Explanation:
    """The plan for a reader.

    Args:
        plan: the answer.
        why: "tp=2,fp8": also list the candidates that have these, and what became of them.
        framework: "vllm" or "sglang": also the line that starts the best.

    Raises:
        InvalidValueError: `why` names nothing that a candidate has.
        UnknownNameError: no such framework.
    """
    question, shown = plan.question, plan.best or plan.nearest
    sections = [
        Section(Text("All that were simulated"), (_table(plan, plan.judged),)),
        Section(Text("What is out"), (_counts(plan),)),
    ]
    if why is not None:
        sections.append(Section(Text("Why not {what}", what=why), (_why(plan, why),)))
    if framework is not None and shown is not None:
        lines = launch_line(question.model, shown.choice, framework).split("\n")
        numbered = tuple(CodeLine(n, line) for n, line in enumerate(lines, start=1))
        written = Code(Text("For {framework}", framework=framework), "sh", numbered)
        sections.append(Section(Text("What starts it"), (written,)))
    assumed = cast("tuple[Text, ...]", shown.choice.cluster.assumptions) if shown else ()
    prices = told((cluster.device for cluster in question.clusters), datetime.date.today())
    return Explanation(
        "plan",
        Text(
            "{model}: {rate} requests a second, {prompt} tokens in, {answer} out",
            model=question.model,
            rate=Number(question.rate_per_s, ".3g"),
            prompt=question.prompt,
            answer=question.answer,
        ),
        _summary(plan),
        tuple(sections),
        (),
        (),
        (*_ASSUMPTIONS, *assumed, *prices),
    )


def _summary(plan: ServingPlan) -> tuple[Text, ...]:
    best, nearest = plan.best, plan.nearest
    lines = []
    if best is not None:
        lines.append(
            Text(
                "Take {cluster}: {plan}. TTFT {ttft}, TPOT {tpot} for nine in ten requests; "
                "{feasible} likely to keep every limit; {usd} a million answer tokens.",
                cluster=best.choice.cluster.name,
                plan=best.choice.words,
                ttft=Seconds(best.ttft_s),
                tpot=Seconds(best.tpot_s),
                feasible=Percent(best.feasible),
                usd=Usd(best.usd_per_million),
            )
        )
    elif nearest is not None:
        lines.append(
            Text(
                "Nothing keeps every limit with {certainty}. The nearest is {cluster}: {plan}: "
                "TTFT {ttft}, TPOT {tpot}, {feasible} likely.",
                certainty=Percent(plan.question.certainty),
                cluster=nearest.choice.cluster.name,
                plan=nearest.choice.words,
                ttft=Seconds(nearest.ttft_s),
                tpot=Seconds(nearest.tpot_s),
                feasible=Percent(nearest.feasible),
            )
        )
    else:
        lines.append(Text("None of these can serve that many requests: ask for more devices."))
    if not plan.complete:
        lines.append(Text("It was interrupted: this is the best so far."))
    return tuple(lines)


def _table(plan: ServingPlan, rows: Sequence[Offered]) -> Table:
    columns = (
        Column(Text("devices")),
        Column(Text("plan")),
        Column(Text("TTFT"), "s"),
        Column(Text("TPOT"), "s"),
        Column(Text("TPOT by the quick score"), "s"),
        Column(Text("can serve"), "percent"),
        Column(Text("likely to do"), "percent"),
        Column(Text("a million tokens"), "USD"),
    )
    cells: list[tuple[Cell, ...]] = [
        (
            each.choice.cluster.name,
            each.choice.words,
            each.ttft_s,
            each.tpot_s,
            each.scored_tpot_s,
            each.headroom,
            each.feasible,
            each.usd_per_million,
        )
        for each in rows
    ]
    chosen = tuple(n for n, each in enumerate(rows) if each is plan.best)
    note = Text("Can serve: requests a second at most, of those that come.")
    return Table(Text("The cheapest first"), columns, tuple(cells), chosen, note=note)


def _counts(plan: ServingPlan) -> Table:
    rows = tuple((_KINDS[kind], count) for kind, count in plan.counts.items())
    note = Text(
        "{count} candidates, of which {judged} were simulated.",
        count=plan.candidates,
        judged=len(plan.judged),
    )
    columns = (Column(Text("reason")), Column(Text("candidates")))
    return Table(Text("Rejected"), columns, rows, note=note)


def _why(plan: ServingPlan, why: str) -> Table:
    wanted = [part.strip().replace("=", " ") for part in why.split(",") if part.strip()]

    def meant(name: str) -> bool:
        parts = name.rpartition(": ")[2].split(", ")
        return all(part in parts for part in wanted)

    lines: list[tuple[Cell, ...]] = []
    for each in plan.judged:
        if meant(each.choice.words):
            told_of = Text(
                "Simulated: TPOT {tpot}, TTFT {ttft}, {feasible} likely to do.",
                tpot=Seconds(each.tpot_s),
                ttft=Seconds(each.ttft_s),
                feasible=Percent(each.feasible),
            )
            lines.append((f"{each.choice.cluster.name}: {each.choice.words}", told_of))
    lines += [(each.words, each.reason) for each in plan.rejected if meant(each.words)]
    if not wanted or not lines:
        names = "tp, replicas, max-tokens, max-sequences"
        raise InvalidValueError(
            Text("'{why}' names no candidate.", why=why),
            Text("A candidate has: {names}.", names=names),
            Text("Type for example: --why tp=2"),
        )
    columns = (Column(Text("candidate")), Column(Text("why")))
    note = Text("{shown} of {count}.", shown=min(MOST_ROWS, len(lines)), count=len(lines))
    return Table(Text("What became of them"), columns, tuple(lines[:MOST_ROWS]), note=note)
