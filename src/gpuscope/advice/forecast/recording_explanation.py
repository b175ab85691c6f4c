"""Advice from a recording as an explanation: bounds, and the findings behind them."""

from __future__ import annotations

from gpuscope.advice.results import Advice
from gpuscope.document.blocks import Cell, Column, Explanation, Section, Table
from gpuscope.document.quantities import Percent, Ratio, Seconds
from gpuscope.document.text import Text, verbatim

__all__ = ["recorded_advice"]


def recorded_advice(advice: Advice) -> Explanation:
    """What `advise_run` gave, told."""
    run = advice.case.run
    sections = [_bounds(advice), _findings(advice)]
    return Explanation(
        topic="advice",
        title=Text("{run} on {target}: what to change", run=run.name, target=run.target),
        summary=(_first(advice), *advice.notes),
        sections=tuple(s for s in sections if s is not None),
        commands=("gpuscope advise file.py:build --on " + advice.case.device.id,),
        assumptions=tuple(verbatim(text) for text in run.assumptions),
    )


def _first(advice: Advice) -> Text:
    step = Seconds(advice.case.run.step_time_s)
    sure = [f for f in advice.singles if f.effect == "helps"]
    if sure:
        best = sure[0]
        return Text(
            "A step takes {step}. First: {change}, {low} to {high} as fast.",
            step=step,
            change=best.names[0],
            low=Ratio(best.low or 1),
            high=Ratio(best.high or 1),
        )
    gains = [f.max_gain_s for f in advice.case.analysis.findings if f.max_gain_s]
    if not gains:
        return Text("A step takes {step}, and its timeline shows nothing to gain.", step=step)
    most = max(gains) / advice.case.run.step_time_s
    return Text(
        "A step takes {step}; the largest finding is worth at most {most} of it.",
        step=step,
        most=Percent(most),
    )


def _bounds(advice: Advice) -> Section | None:
    if not advice.singles:
        return None
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (f.names[0], f.low, f.high, f.why) for f in advice.singles
    )
    table = Table(
        Text("Bounds, one change at a time"),
        (
            Column(Text("change")),
            Column(Text("at least"), "ratio"),
            Column(Text("at most"), "ratio"),
            Column(Text("why")),
        ),
        rows,
        marked=tuple(at for at, f in enumerate(advice.singles) if f.effect == "helps"),
    )
    return Section(Text("What the timeline promises"), (table,))


def _findings(advice: Advice) -> Section | None:
    found = [f for f in advice.case.analysis.findings if f.hint]
    if not found:
        return None
    rows: tuple[tuple[Cell, ...], ...] = tuple((f.title, f.max_gain_s, f.hint) for f in found)
    table = Table(
        Text("Findings, the largest first"),
        (Column(Text("what")), Column(Text("at most"), "s"), Column(Text("what to try"))),
        rows,
    )
    return Section(Text("What it shows"), (table,))
