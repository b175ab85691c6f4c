"""What surrounds a choice: rivals, what would halve its cost or make the second win, CO2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import erf, sqrt
from typing import Any

from gpuscope.document.blocks import (
    Axis,
    Block,
    Cell,
    Column,
    Lines,
    Mark,
    Paragraph,
    Section,
    Series,
    Table,
)
from gpuscope.document.quantities import Bytes, Joules, Number, Percent, Seconds, Usd
from gpuscope.document.text import Text, verbatim
from gpuscope.hardware.grid import JOULES_PER_KWH, GridFactor
from gpuscope.planning.choice import SHARED, Ranked
from gpuscope.planning.types import Neighbour, Simulated
from gpuscope.program.types import HOLDERS

__all__ = [
    "SIGMAS",
    "against",
    "amount",
    "around",
    "energy_and_co2",
    "factor_of",
    "holders",
    "odds",
    "one_step",
    "rivals",
]

SIGMAS = 1.2816
"""Standard deviations of a normal error to either side that an 80 % interval spans."""


WIDE = 8
"""From such a ratio of their ends on intervals are drawn on a logarithmic axis."""

_FITS = Text("fits")


def rivals(judged: Sequence[Any], front: Sequence[Any], best: Any) -> Section:
    """All that were simulated: a step's time with its interval against what it costs.

    Args:
        judged: candidates that were simulated and fit (`Ranked`).
        front: those of them that no other beats.
        best: the choice.
    """
    priced = all(each.usd is not None for each in judged)
    across = Axis(Text("cost of a step"), "USD", True)
    if not priced:
        across = Axis(Text("devices x seconds of a step"), "s", True)

    def x(each: Any) -> float:
        return float(each.usd) if priced else each.step_s * each.candidate.cluster.n_devices

    block = against(
        Text("A step's time against its cost; each bar is an 80 % interval"),
        across,
        Axis(Text("step"), "s"),
        [(x(each), each.step_s) for each in judged],
        [(x(each), each.low_s, each.high_s) for each in judged],
        [(x(each), each.step_s) for each in front],
        (x(best), best.step_s),
    )
    return Section(Text("All against all"), (block,))


def against(
    title: Text,
    x: Axis,
    y: Axis,
    all_places: Sequence[tuple[float, float]],
    intervals: Sequence[tuple[float, float, float]],
    front: Sequence[tuple[float, float]],
    choice: tuple[float, float],
    named: Text = _FITS,
) -> Lines:
    """A scatter with an interval at each point.

    Args:
        title, x, y: of the picture.
        all_places: each candidate's x and y.
        intervals: x, lower and upper end.
        front: places that no other beats.
        choice: the place that is taken.
        named: what all of them are called.
    """
    wide = max(high for *_, high in intervals) > WIDE * min(low for _, low, _ in intervals)
    bars = [(at, end) for at, low, high in intervals for end in (low, high, None)]
    return Lines(
        title,
        x,
        replace(y, log=wide),
        (
            Series(Text("80 % interval"), *_columns(bars)),
            Series(named, *_columns(all_places), shape="points", role="compute"),
            Series(Text("the front"), *_columns(front), shape="points", role="good"),
        ),
        (Mark(Text("the choice"), *choice, "good"),),
    )


def _columns(places: Sequence[tuple[float, Any]]) -> tuple[tuple[float, ...], tuple[Any, ...]]:
    return tuple(place[0] for place in places), tuple(place[1] for place in places)


def holders(shown: Simulated, words: str) -> Section:
    """What holds the memory of the fullest rank at its peak."""
    columns = (Column(Text("holder")), Column(Text("at the peak"), "bytes"))
    rows = tuple((HOLDERS[name], count) for name, count in shown.held)
    note = Text(
        "{total} on rank {rank}, the fullest.", total=Bytes(shown.peak_bytes), rank=shown.rank
    )
    return Section(
        Text("What holds the memory"), (Table(verbatim(words), columns, rows, note=note),)
    )


def one_step(near: Sequence[Neighbour], words: str) -> Section:
    """Plans one decision away from a choice: how much worse, and whether they fit.

    Args:
        near: the plans.
        words: of the choice.
    """
    columns = (
        Column(Text("one step away")),
        Column(Text("the goal's figure"), "percent"),
        Column(Text("peak memory"), "bytes"),
        Column(Text("fits")),
        Column(Text("figure")),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            each.change,
            each.more,
            each.peak_bytes,
            _room(each),
            Text("quick score") if each.rank is None else Text("simulated"),
        )
        for each in near
    ]
    title = Text("One decision from: {plan}", plan=words)
    note = Text("A quick score is scaled by what it was off for the choice.")
    block: Block = Table(title, columns, tuple(rows), note=note)
    if not rows:
        block = Paragraph(Text("No plan that can be is one decision away."))
    return Section(Text("One decision away"), (block,))


def _room(each: Neighbour) -> Text:
    room = Bytes(abs(each.usable_bytes - each.peak_bytes))
    if each.peak_bytes <= each.usable_bytes:
        return Text("with {room} left", room=room)
    if each.rank is None:
        return Text("not by {room}", room=room)
    return Text("not on rank {rank} by {room}", rank=each.rank, room=room)


def energy_and_co2(each: Simulated, steps: float | None, grid: GridFactor) -> tuple[Text, ...]:
    """Energy of a step or of all steps, and its CO2; nothing where it is not known."""
    if each.energy_j is None:
        return ()
    energy_j = each.energy_j * (steps or 1.0)
    figures: dict[str, Any] = {
        "energy": Joules(energy_j),
        "kwh": amount(energy_j / JOULES_PER_KWH),
        "kg": amount(grid.grams(energy_j) / 1e3),
        "factor": factor_of(grid),
    }
    if steps is None:
        return (Text("A step draws {energy}: {kg} kg of CO2 equivalent ({factor}).", **figures),)
    return (
        Text(
            "All steps draw {kwh} kWh at the devices' boards: {kg} kg of CO2 equivalent "
            "({factor}).",
            **figures,
        ),
    )


def factor_of(grid: GridFactor) -> Text:
    """A grid's factor with its place, source and year."""
    if not grid.source:
        return Text("{g} g a kWh, as given", g=Number(grid.g_per_kwh, "g"))
    return Text(
        "{g} g a kWh: {place}, {source} {year}",
        g=Number(grid.g_per_kwh, "g"),
        place=grid.place,
        source=grid.source,
        year=grid.year or "",
    )


def amount(value: float) -> Number:
    """A large number in whole units, a small one in three digits."""
    return Number(value, ",.0f" if value >= 100 else ".3g")


def around(
    judged: Sequence[Any], best: Any, goal: str, least_s: float | None = None
) -> list[Section]:
    """What would make the choice cheaper, and what would make another one.

    Args:
        judged: candidates that were simulated and fit (`Ranked` and `Simulated`).
        best: the choice.
        goal: one of `gpuscope.planning.figures.registry.goals`.
        least_s: no step of the choice can be quicker; None: not known.
    """
    second = runner_up(judged, best, goal)
    return [halving(judged, best, least_s), *([second] if second else [])]


def runner_up(judged: Sequence[Any], best: Any, goal: str) -> Section | None:
    """What would have to be true for the second to win; None where there is none.

    Args:
        judged: candidates that were simulated and fit (`Ranked` and `Simulated`).
        best: the choice.
        goal: one of `gpuscope.planning.figures.registry.goals`.
    """
    others = [each for each in judged if each is not best and each.value(goal) is not None]
    mine = best.value(goal)
    if not others or not mine:
        return None
    second = min(others, key=lambda each: each.value(goal))
    share = second.value(goal) / mine
    blocks: list[Block] = [
        Paragraph(
            Text(
                "{cluster}: {plan} is second: {more} % of the goal's figure, {odds} likely to be "
                "the better one all the same.",
                cluster=second.candidate.cluster.name,
                plan=second.candidate.words,
                more=Number((share - 1) * 100, "+.1f"),
                odds=Percent(odds(best, second, goal)),
            )
        ),
        Paragraph(
            Text(
                "It wins if its step takes less than {limit} ({step} is predicted), the choice "
                "taking what is predicted.",
                limit=Seconds(second.step_s / share),
                step=Seconds(second.step_s),
            )
        ),
    ]
    price = second.candidate.cluster.device.price_usd_per_hour
    other_device = second.candidate.cluster.device.id != best.candidate.cluster.device.id
    if goal == "cost" and other_device and price is not None:
        blocks.append(
            Paragraph(
                Text(
                    "Or if an hour of {device} costs less than {limit} ({price} is taken).",
                    device=second.candidate.cluster.device.name,
                    limit=Usd(price / share),
                    price=Usd(price),
                )
            )
        )
    if share < 1:
        blocks.append(
            Paragraph(Text("It is no worse: the choice is taken since it is the simpler one."))
        )
    return Section(Text("What would have to be true for the runner-up to win"), tuple(blocks))


def odds(best: Ranked, other: Ranked, goal: str) -> float:
    """Probability that the other's figure is the smaller one, errors being normal."""
    mine, its = best.value(goal), other.value(goal)
    assert mine is not None
    assert its is not None
    same = best.candidate.cluster.device.id == other.candidate.cluster.device.id
    one, two = (
        (each.high_s - each.low_s) / 2 / each.step_s * figure / SIGMAS
        for each, figure in ((best, mine), (other, its))
    )
    rho = SHARED if same else 0.0
    spread = sqrt(max(1e-30, one**2 + two**2 - 2 * rho * one * two))
    return 0.5 * (1 + erf((mine - its) / spread / sqrt(2)))


def halving(judged: Sequence[Any], best: Any, least_s: float | None = None) -> Section:
    """What to change to halve the cost of a step.

    Args:
        judged: candidates that were simulated and fit (`Ranked`).
        best: the choice.
        least_s: no step of it can be quicker: its arithmetic at the device's peak; None: not known.
    """
    cluster = best.candidate.cluster
    priced = [each for each in judged if each.usd is not None]
    if best.usd is None:
        told = [Text("Without a price there is no cost to halve: --prices FILE")]
        return Section(Text("What would halve the cost"), (Paragraph(told[0]),))
    cheapest = min(priced, key=lambda each: each.value("cost"))
    share = cheapest.value("cost") / best.value("cost")
    told = []
    if cheapest is best:
        told.append(Text("Nothing that was simulated is cheaper."))
    else:
        told.append(
            Text(
                "The cheapest that was simulated is {cluster}: {plan}: {more} % in cost, a "
                "step in {time}.",
                cluster=cheapest.candidate.cluster.name,
                plan=cheapest.candidate.words,
                more=Number((share - 1) * 100, "+.1f"),
                time=Seconds(cheapest.step_s),
            )
        )
    if share > 0.5:
        told.append(
            Text(
                "Half the cost is an hour of {device} at {usd}, or a step of {time} on as many.",
                device=cluster.device.name,
                usd=Usd((cluster.device.price_usd_per_hour or 0.0) / 2),
                time=Seconds(best.step_s / 2),
            )
        )
        told += _bound(cluster, best.step_s, least_s)
    return Section(Text("What would halve the cost"), tuple(Paragraph(each) for each in told))


def _bound(cluster: Any, step_s: float, least_s: float | None) -> list[Text]:
    """Whether a step of half the time can be."""
    if least_s is None:
        return []
    figures: dict[str, Any] = {"least": Seconds(least_s), "share": Percent(least_s / step_s)}
    if least_s <= step_s / 2:
        return [
            Text(
                "Its arithmetic alone takes {least} at the peak in bfloat16 ({share} of the step): "
                "such a step is not ruled out by that.",
                **figures,
            )
        ]
    told = [
        Text(
            "No split can be that quick: its arithmetic alone takes {least} at the peak in "
            "bfloat16 ({share} of the step).",
            **figures,
        )
    ]
    device = cluster.device
    if device.supports("fp8"):
        ratio = device.peak_flops_per_s("bfloat16") / device.peak_flops_per_s("fp8")
        told.append(Text("In fp8 it would take {least}.", least=Seconds(least_s * ratio)))
    return told
