"""A plan in words and tables: the front, the choice, what is one step away, what is out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import cast

from gpuscope.document.blocks import (
    Block,
    Cell,
    Code,
    CodeLine,
    Column,
    Explanation,
    Paragraph,
    Section,
    Table,
)
from gpuscope.document.quantities import Bytes, Number, Percent, Seconds, Usd
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.planning.check import changed
from gpuscope.planning.prices import told
from gpuscope.planning.types import Judged, Plan, Question, steps_of

__all__ = ["assumed", "command", "explained"]

MOST_ROWS = 20
"""Rejected candidates that `--why` lists."""

_KINDS = {
    "layout": Text("cannot be split so"),
    "memory": Text("does not fit"),
    "slower": Text("slower even at the device's peak"),
    "not_simulated": Text("others had the better quick score"),
}

_ASSUMPTIONS = (
    Text("All candidates train with AdamW in bfloat16 mixed precision, eagerly, as PyTorch does."),
    Text(
        "Ties: errors of candidates on one device are taken to correlate by 0.9; across devices "
        "not at all."
    ),
    Text("A peak is taken to be right within 2 % (one standard deviation)."),
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
    sections = [
        Section(Text("The front"), (_table(Text("No other is better in all"), plan, plan.front),)),
        Section(Text("All that were simulated"), _neighbours(plan)),
        Section(Text("What is out"), (_counts(plan),)),
    ]
    if why is not None:
        sections.append(Section(Text("Why not {what}", what=why), (_why(plan, why),)))
    if framework is not None:
        lines = plan.to(framework).rstrip("\n").split("\n")
        numbered = tuple(CodeLine(n, line) for n, line in enumerate(lines, start=1))
        written = Code(Text("For {framework}", framework=framework), "toml", numbered)
        sections.append(Section(Text("What starts it"), (written,)))
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
        (command(best, question.model, question.seq),),
        (),
        assumed(question, best),
    )


def _summary(plan: Plan) -> tuple[Text, ...]:
    best = plan.best
    lines = [
        Text(
            "Take {cluster}: {plan}. A step takes {step} (80 % sure: {low} to {high}).",
            cluster=best.candidate.cluster.name,
            plan=best.candidate.words,
            step=Seconds(best.step_s),
            low=Seconds(best.low_s),
            high=Seconds(best.high_s),
        ),
        Text(
            "Its fullest rank holds {peak} of {usable}: {fits} likely to fit.",
            peak=Bytes(best.peak_bytes),
            usable=Bytes(best.usable_bytes),
            fits=Percent(best.fits),
        ),
    ]
    steps = steps_of(plan.question)
    if steps is not None:
        lines.append(
            Text(
                "All {steps} steps take {days} days and {usd}.",
                steps=Number(round(steps), ","),
                days=Number(steps * best.step_s / 86400, ".3g"),
                usd=Usd(None if best.usd is None else steps * best.usd),
            )
        )
    if len(plan.ties) > 1:
        lines.append(
            Text(
                "{count} candidates cannot be told from the best; this is the simplest of them.",
                count=len(plan.ties),
            )
        )
    if not plan.complete:
        lines.append(Text("It was interrupted: this is the best so far."))
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


def _neighbours(plan: Plan) -> tuple[Block, ...]:
    """All others against the choice, and those that are one decision away."""
    goal, best = plan.question.goal, plan.best
    ordered = sorted(plan.judged, key=lambda each: each.value(goal) or 0.0)
    blocks: list[Block] = [_table(Text("The best for the goal first"), plan, ordered)]
    mine = best.value(goal)
    for each in ordered:
        change = changed(best.candidate, each.candidate)
        value = each.value(goal)
        if each is best or change is None or not mine or value is None:
            continue
        blocks.append(
            Paragraph(
                Text(
                    "One step away: {changed}: {more} % of the goal's figure, {peak}.",
                    changed=change,
                    more=Number((value / mine - 1) * 100, "+.0f"),
                    peak=Bytes(each.peak_bytes),
                )
            )
        )
    return tuple(blocks)


def _counts(plan: Plan) -> Table:
    rows = tuple((_KINDS[kind], count) for kind, count in plan.counts.items())
    note = Text(
        "{count} candidates, of which {judged} were simulated and fit.",
        count=plan.candidates,
        judged=len(plan.judged),
    )
    columns = (Column(Text("reason")), Column(Text("candidates")))
    return Table(Text("Rejected"), columns, rows, note=note)


def _why(plan: Plan, why: str) -> Table:
    wanted = [part.strip().replace("=", " ") for part in why.split(",") if part.strip()]
    known = {"dp", "tp", "pp", "cp", "ep", "fsdp", "schedule", "microbatch", "recompute"}
    if not wanted or any(part.partition(" ")[0] not in known for part in wanted):
        raise InvalidValueError(
            Text("'{why}' names no candidate.", why=why),
            Text("A candidate has: {names}.", names=", ".join(sorted(known))),
            Text("Type for example: --why tp=4,pp=2"),
        )

    def meant(words: str) -> bool:
        parts = words.rpartition(": ")[2].split(", ")
        return all(part in parts for part in wanted)

    lines: list[tuple[Cell, ...]] = []
    for each in plan.judged:
        if meant(each.candidate.words):
            step = Text("Simulated: {step} a step.", step=Seconds(each.step_s))
            lines.append((f"{each.candidate.cluster.name}: {each.candidate.words}", step))
    lines += [(each.words, each.reason) for each in plan.rejected if meant(each.words)]
    columns = (Column(Text("candidate")), Column(Text("why")))
    note = Text("{shown} of {count}.", shown=min(MOST_ROWS, len(lines)), count=len(lines))
    title = Text("What became of them")
    return Table(title, columns, tuple(lines[:MOST_ROWS]), note=note)


def assumed(question: Question, taken: Judged) -> tuple[Text, ...]:
    """What an answer rests on: habits, the cluster of the plan that is taken, prices."""
    of_cluster = cast("tuple[Text, ...]", taken.candidate.cluster.assumptions)
    devices = (cluster.device for cluster in question.clusters)
    return *_ASSUMPTIONS, *of_cluster, *told(devices, datetime.date.today())


def command(best: Judged, model: str, seq: int) -> str:
    """What predicts the choice in full."""
    asked, cluster = best.candidate.asked, best.candidate.cluster
    given = [f"gpuscope predict {model} --task train --on {cluster.n_devices}x{cluster.device.id}"]
    given.append(f"--seq {seq} --global-batch {asked.global_batch} --microbatch {asked.microbatch}")
    for name in ("tp", "pp", "cp", "ep"):
        if getattr(asked, name) != 1:
            given.append(f"--{name} {getattr(asked, name)}")
    given.append(f"--fsdp {asked.fsdp}")
    if asked.pp != 1:
        given.append(f"--schedule {asked.schedule}")
    if asked.recompute != "none":
        given.append(f"--recompute {asked.recompute}")
    return " ".join(given)
