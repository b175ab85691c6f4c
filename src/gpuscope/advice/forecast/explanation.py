"""Advice as an explanation: what terminal, page, JSON and pictures show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuscope.advice.registry import find
from gpuscope.advice.results import Advice, Forecast
from gpuscope.advice.types import Numerics
from gpuscope.document.blocks import (
    Bar,
    Bars,
    Block,
    Cell,
    Column,
    Explanation,
    Paragraph,
    Part,
    Role,
    Section,
    Table,
)
from gpuscope.document.quantities import Bytes, Number, Ratio, Seconds
from gpuscope.document.text import Text, Value, joined, plural, sentences, verbatim

__all__ = ["NUMERICS", "explained", "numerics_of"]

NUMERICS: Mapping[Numerics, Text] = {
    "exact": Text("the same"),
    "reordered": Text("rounding"),
    "tf32": verbatim("TF32"),
    "bf16": verbatim("bfloat16"),
    "fp16": verbatim("float16"),
    "fp8": Text("8-bit floats"),
    "int8": Text("8-bit integers"),
    "int4": Text("4-bit integers"),
    "recipe": Text("other recipe"),
}
"""What a change may do to the results, in a few words."""

_SPEED = Column(Text("speed-up"), "ratio")
_RANGE = Column(Text("80 % interval"))
_STEP = Column(Text("step"), "s")
_MEMORY = Column(Text("peak memory"), "bytes")
_ENERGY = Column(Text("energy"), "J")
_RESULTS = Column(Text("results"))
_CHANGE = Column(Text("change"))
_WHY = Column(Text("why"))


def explained(advice: Advice, again: str = "") -> Explanation:
    """The advice for a reader.

    Args:
        advice: what `advise` gave.
        again: the workload as typed on the command line, for what to type next; "" for none.
    """
    run = advice.case.run
    sections = [
        _path(advice),
        _alone(advice),
        _typing(advice),
        _harmful(advice),
        _failing(advice),
        _impossible(advice),
    ]
    tried = again and advice.path and advice.case.onnx is None and advice.case.jax is None
    commands = (f"gpuscope optimize {again}",) if tried else ()
    return Explanation(
        topic="advice",
        title=Text("{run} on {target}: what to change", run=run.name, target=run.target),
        summary=_summary(advice),
        sections=tuple(s for s in sections if s is not None),
        commands=commands,
        assumptions=_assumptions(advice),
    )


def _assumptions(advice: Advice) -> tuple[Text, ...]:
    """Those of the code as it is, then what holds of the best combination alone."""
    base = advice.case.run.assumptions
    best = advice.path[-1].run if advice.path else None
    more = () if best is None else (text for text in best.assumptions if text not in base)
    more_said = (Text("With the best combination: {text}", text=text) for text in more)
    return (*(verbatim(text) for text in base), *more_said)


def added(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    """What one set of changes has beyond another."""
    return tuple(name for name in after if name not in before)


def _summary(advice: Advice) -> tuple[Text, ...]:
    said: list[Text] = []
    run, best = advice.case.run, advice.best
    if best is not None and best.speedup is not None:
        said.append(
            plural(
                "One change ({names}): {gain}.",
                "{count} changes together ({names}): {gain}.",
                len(best.names),
                names=joined(best.names),
                gain=_gain(advice, best),
            )
        )
    else:
        said.append(
            Text(
                "A step takes {step_time}, and no change is sure to gain.",
                step_time=Seconds(run.step_time_s),
            )
        )
    said.extend(advice.notes)
    bad = [f for f in advice.singles if f.effect == "hurts"]
    if bad:
        listed = joined([f"{f.names[0]} ({Ratio(f.speedup)})" for f in reversed(bad)])
        said.append(Text("Harmful here: {listed}.", listed=listed))
    said.append(
        Text(
            "All of it is predicted; nothing was run. Combinations are simulated together, not "
            "added up."
        )
    )
    return tuple(said)


def _gain(advice: Advice, best: Forecast) -> Text:
    values: dict[str, Value] = {
        "speedup": Ratio(best.speedup),
        "low": Number(best.low or 0),
        "high": Number(best.high or 0),
        "before": Seconds(advice.case.run.step_time_s),
        "after": Seconds(best.step_time_s or 0),
    }
    was, now = advice.case.run.peak_memory_bytes, best.peak_memory_bytes
    if not was or not now or abs(now - was) < 0.01 * was:
        return Text("{speedup} as fast ({low} to {high}), {before} → {after} a step", **values)
    return Text(
        "{speedup} as fast ({low} to {high}), {before} → {after} a step, peak memory {held} → "
        "{needed}",
        held=Bytes(was),
        needed=Bytes(now),
        **values,
    )


# -- sections -------------------------------------------------------------------------------------


def _path(advice: Advice) -> Section | None:
    if not advice.path:
        return None
    bars = [_bar(Text("as it is"), advice.case.run.step_time_s, "reference")]
    rows: list[tuple[Cell, ...]] = [_baseline(advice)]
    before: tuple[str, ...] = ()
    for forecast in advice.path:
        names = ", ".join(added(before, forecast.names))
        bars.append(_bar(f"+ {names}", forecast.step_time_s or 0.0, "good"))
        rows.append((f"+ {names}", *_figures(forecast), numerics_of(added(before, forecast.names))))
        before = forecast.names
    table = Table(
        Text("Each with all above it"),
        (_CHANGE, _SPEED, _RANGE, _STEP, _MEMORY, _ENERGY, _RESULTS),
        tuple(rows),
        marked=(len(rows) - 1,),
    )
    chart = Bars(Text("A step, change by change"), "s", tuple(bars))
    blocks: list[Block] = [chart, table]
    last = advice.path[-1]
    blocks.append(Paragraph(Text("In all: {why}", why=last.why)))
    if last.price is not None:
        blocks.append(Paragraph(Text("Its price: {price}", price=last.price), "warning"))
    blocks.extend(_risks(advice, last))
    return Section(Text("The best combination"), tuple(blocks))


def _risks(advice: Advice, last: Forecast) -> list[Block]:
    said = [(name, find(name).risk(advice.case)) for name in last.names]
    return [
        Paragraph(Text("{name}: {risk}", name=name, risk=risk), "doubt")
        for name, risk in said
        if risk is not None
    ]


def _alone(advice: Advice) -> Section | None:
    good = [f for f in advice.singles if f.effect in ("helps", "little")]
    if not good:
        return None
    rows = tuple((f.names[0], *_figures(f), numerics_of(f.names)) for f in good)
    table = Table(
        Text("One change at a time, against the code as it is"),
        (_CHANGE, _SPEED, _RANGE, _STEP, _MEMORY, _ENERGY, _RESULTS),
        rows,
        marked=tuple(at for at, f in enumerate(good) if f.effect == "helps"),
    )
    reasons = _reasons(Text("What each does"), good)
    return Section(Text("Each change alone"), (table, reasons))


def _typing(advice: Advice) -> Section | None:
    """What to type for changes that neither a patch nor `gs.apply` makes."""
    good = [f.names[0] for f in advice.singles if f.effect == "helps"]
    chosen = advice.path[-1].names if advice.path else ()
    named = [(name, find(name).typed(advice.case)) for name in dict.fromkeys((*chosen, *good))]
    rows = tuple((name, typed) for name, typed in named if typed is not None)
    if not rows:
        return None
    table = Table(Text("Yours to type"), (_CHANGE, Column(Text("what to type or write"))), rows)
    return Section(Text("How to make them"), (table,))


def _harmful(advice: Advice) -> Section | None:
    bad = [f for f in advice.singles if f.effect in ("hurts", "does not fit")]
    if not bad:
        return None
    rows = tuple((f.names[0], *_figures(f)) for f in bad)
    table = Table(
        Text("Slower than the code as it is"),
        (_CHANGE, _SPEED, _RANGE, _STEP, _MEMORY, _ENERGY),
        rows,
    )
    reasons = _reasons(Text("Why"), bad)
    return Section(Text("What not to do here"), (table, reasons))


def _failing(advice: Advice) -> Section | None:
    failed = [f for f in advice.singles if f.effect == "fails"]
    if not failed:
        return None
    table = _reasons(Text("Tried, and the code fails"), failed)
    return Section(Text("What fails"), (table,))


def _impossible(advice: Advice) -> Section | None:
    far = [r for r in advice.refused if r.fit.relevant]
    if not far:
        return None
    rows = tuple((r.name, r.fit.why) for r in far)
    table = Table(Text("Changes that do not apply"), (_CHANGE, _WHY), rows)
    return Section(Text("Not possible or not needed"), (table,))


def _reasons(title: Text, forecasts: Sequence[Forecast]) -> Table:
    rows = tuple((f.names[0], _reason(f)) for f in forecasts)
    return Table(title, (_CHANGE, _WHY), rows)


def _reason(forecast: Forecast) -> Text:
    price = forecast.price
    if price is None or forecast.effect == "fails":
        return forecast.why
    return sentences(forecast.why, price)


def _baseline(advice: Advice) -> tuple[Cell, ...]:
    run = advice.case.run
    return (Text("as it is"), 1.0, "", run.step_time_s, run.peak_memory_bytes, run.energy_j, "")


def _figures(forecast: Forecast) -> tuple[Cell, ...]:
    """Speedup, interval, step, memory, energy."""
    if forecast.low is None or forecast.high is None:
        interval: Cell = ""
    elif forecast.low == forecast.high:
        interval = f"{Number(forecast.low)}"
    else:
        interval = f"{forecast.low:.2f} – {forecast.high:.2f}"
    return (
        forecast.speedup,
        interval,
        forecast.step_time_s,
        forecast.peak_memory_bytes,
        forecast.energy_j,
    )


def numerics_of(names: Sequence[str]) -> Text:
    """The coarsest that changes may do to the results."""
    order = list(NUMERICS)
    return NUMERICS[max((find(name).numerics for name in names), key=order.index)]


def _bar(label: Cell, value_s: float, role: Role) -> Bar:
    return Bar(label, (Part(Text("a step"), value_s, role),))
