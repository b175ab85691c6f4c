"""What every sort of plan says alike: what fits, what it comes to, what is out, and why."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import cast

from gpuscope.document.blocks import Cell, Code, CodeLine, Column, Section, Table
from gpuscope.document.quantities import Bytes, Number, Percent, Seconds, Usd
from gpuscope.document.text import Text
from gpuscope.hardware import Cluster
from gpuscope.planning.figures.registry import Measured
from gpuscope.planning.limits import Most
from gpuscope.planning.prices import told
from gpuscope.planning.types import Rejected, Simulated, counted

__all__ = [
    "PEAK",
    "bound_to",
    "how_many",
    "kept",
    "of_the_whole",
    "out",
    "simulated_step",
    "starts",
    "take",
    "tied",
    "what_it_holds",
]

PEAK = Text("A peak is taken to be right within 2 % (one standard deviation).")

_KINDS = {
    "layout": Text("cannot be split so"),
    "framework": Text("the framework cannot start it"),
    "memory": Text("does not fit"),
    "limit": Text("breaks a limit"),
    "slower": Text("slower even at the device's peak"),
    "overloaded": Text("cannot keep up"),
    "not_simulated": Text("others had the better quick score"),
    "unfit": Text("a change that cannot be made here"),
    "little": Text("a change that gains little alone"),
}


def take(each: Simulated, cluster: Cluster, words: str) -> tuple[Text, ...]:
    """The choice, its step, and what it holds.

    Args:
        each: what was chosen.
        cluster, words: of its candidate.
    """
    if not each.simulated:
        return (
            Text(
                "Nothing that fits was simulated. By the quick score alone the best is {cluster}: "
                "{plan}: about {step} a step, {peak} of {usable} on its fullest rank.",
                cluster=cluster.name,
                plan=words,
                step=Seconds(each.step_s),
                peak=Bytes(each.peak_bytes),
                usable=Bytes(each.usable_bytes),
            ),
        )
    taken = Text(
        "Take {cluster}: {plan}. A step takes {step} (80 % sure: {low} to {high}).",
        cluster=cluster.name,
        plan=words,
        step=Seconds(each.step_s),
        low=Seconds(each.low_s),
        high=Seconds(each.high_s),
    )
    return taken, what_it_holds(each)


def how_many(candidates: int, judged: int) -> Text:
    """Of how many candidates how many were simulated and fit."""
    return Text(
        "{count} candidates, of which {judged} were simulated and fit.",
        count=candidates,
        judged=judged,
    )


def what_it_holds(each: Simulated) -> Text:
    """Memory of the fullest rank, and how likely it fits."""
    return Text(
        "Its fullest rank holds {peak} of {usable}: {fits} likely to fit.",
        peak=Bytes(each.peak_bytes),
        usable=Bytes(each.usable_bytes),
        fits=Percent(each.fits),
    )


def of_the_whole(steps: float | None, each: Simulated) -> tuple[Text, ...]:
    """Days and money of so many steps; nothing where their number was not said."""
    if steps is None:
        return ()
    taken = {"steps": Number(round(steps), ","), "days": Number(steps * each.step_s / 86400, ".3g")}
    if each.usd is None:
        return (Text("All {steps} steps take {days} days; no price is known.", **taken),)
    return (
        Text("All {steps} steps take {days} days and {usd}.", **taken, usd=Usd(steps * each.usd)),
    )


def kept(limits: Sequence[Most], each: Measured, steps: float | None) -> tuple[Section, ...]:
    """What the choice comes to beside each most; nothing where none was asked for."""
    rows: list[tuple[Cell, ...]] = []
    for most in limits:
        value = most.figure.of(each, steps or 1.0)
        if value is not None:  # what caps a device is told with its memory
            told = Text("{value}", value=most.figure.shown(value))
            rows.append((most.figure.title, told, most.written))
    if not rows:
        return ()
    columns = (Column(Text("figure")), Column(Text("the choice's")), Column(Text("limit")))
    note = Text("Of a step.") if steps is None else Text("Of all steps.")
    return (Section(Text("Limits"), (Table(Text("What was asked for"), columns, tuple(rows),
                                           note=note),)),)  # fmt: skip


def tied(ties: Sequence[Simulated], complete: bool) -> tuple[Text, ...]:
    """That others cannot be told from the best, and that the search was interrupted."""
    found = []
    if len(ties) > 1:
        found.append(
            Text(
                "{count} candidates cannot be told from the best; this is the simplest of them.",
                count=len(ties),
            )
        )
    if not complete:
        found.append(Text("It was interrupted: this is the best so far."))
    return tuple(found)


def out(rejected: Sequence[Rejected], note: Text) -> Section:
    """How many candidates are out, by reason."""
    rows = tuple((_KINDS[kind], count) for kind, count in counted(rejected).items())
    columns = (Column(Text("reason")), Column(Text("candidates")))
    return Section(Text("What is out"), (Table(Text("Rejected"), columns, rows, note=note),))


def simulated_step(each: Simulated) -> Text:
    """What became of a candidate whose step was simulated."""
    return Text("Simulated: {step} a step.", step=Seconds(each.step_s))


def starts(framework: str, text: str, language: str) -> Section:
    """What starts the choice, line by line."""
    lines = text.rstrip("\n").split("\n")
    numbered = tuple(CodeLine(n, line) for n, line in enumerate(lines, start=1))
    written = Code(Text("For {framework}", framework=framework), language, numbered)
    return Section(Text("What starts it"), (written,))


def bound_to(taken: Cluster | None, asked: Iterable[Cluster]) -> tuple[Text, ...]:
    """What the cluster that is taken assumes, and the prices of those asked for."""
    asked = tuple(asked)
    made_up = dict.fromkeys(each.device.name for each in asked if "[" in each.device.name)
    of_cluster = cast("tuple[Text, ...]", taken.assumptions) if taken is not None else ()
    of_cluster += tuple(Text("This device does not exist: {name}.", name=name) for name in made_up)
    prices = told((cluster.device for cluster in asked), datetime.date.today())
    return *of_cluster, *prices
