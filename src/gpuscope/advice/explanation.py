"""Advice as an explanation: what terminal, page, JSON and pictures show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuscope.advice.registry import find
from gpuscope.advice.results import Advice, Forecast
from gpuscope.advice.types import Numerics
from gpuscope.explain.numbers import seconds, size, three
from gpuscope.explain.types import (
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
    Words,
)

__all__ = ["NUMERICS", "explained"]

NUMERICS: Mapping[Numerics, Words] = {
    "exact": Words("the same", "相同"),
    "reordered": Words("rounding", "舍入次序"),
    "tf32": Words("TF32", "TF32"),
    "bf16": Words("bfloat16", "bfloat16"),
    "fp16": Words("float16", "float16"),
    "fp8": Words("8-bit floats", "8 位浮点"),
    "int8": Words("8-bit integers", "8 位整数"),
    "int4": Words("4-bit integers", "4 位整数"),
    "recipe": Words("other recipe", "方案不同"),
}
"""What a change may do to the results, in a few words."""

_SPEED = Column(Words("speed-up", "加速比"), "ratio")
_RANGE = Column(Words("80 % interval", "80 % 区间"))
_STEP = Column(Words("step", "每步用时"), "s")
_MEMORY = Column(Words("peak memory", "显存峰值"), "bytes")
_ENERGY = Column(Words("energy", "能耗"), "J")
_RESULTS = Column(Words("results", "结果"))
_CHANGE = Column(Words("change", "改动"))
_WHY = Column(Words("why", "原因"))


def explained(advice: Advice, again: str = "") -> Explanation:
    """The advice, told.

    Args:
        advice: what `advise` gave.
        again: the workload as typed on the command line, for what to type next; "" for none.
    """
    run = advice.case.run
    sections = [
        _path(advice), _alone(advice), _harmful(advice), _failing(advice), _impossible(advice)
    ]  # fmt: skip
    commands = (f"gpuscope optimize {again}",) if again and advice.path else ()
    return Explanation(
        topic="advice",
        title=Words(
            f"{run.name} on {run.target}: what to change", f"{run.target} 上的 {run.name}：该改什么"
        ),
        summary=_summary(advice),
        sections=tuple(s for s in sections if s is not None),
        commands=commands,
        assumptions=tuple(Words(text, text) for text in _assumptions(advice)),
    )  # fmt: skip


def _assumptions(advice: Advice) -> tuple[str, ...]:
    """Those of the code as it is, then what holds of the best combination alone."""
    base = advice.case.run.assumptions
    best = advice.path[-1].run if advice.path else None
    more = () if best is None else (text for text in best.assumptions if text not in base)
    return (*base, *(f"With the best combination: {text}" for text in more))


def added(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    """What one set of changes has beyond another."""
    return tuple(name for name in after if name not in before)


def _summary(advice: Advice) -> tuple[Words, ...]:
    said: list[Words] = []
    run, best = advice.case.run, advice.best
    if best is not None and best.speedup is not None:
        many = len(best.names)
        said.append(
            Words(
                f"{_changes_en(many)} ({', '.join(best.names)}): {_gain_en(advice, best)}.",
                f"{_changes_zh(many)}（{'、'.join(best.names)}）：{_gain_zh(advice, best)}。",
            )
        )  # fmt: skip
    else:
        said.append(
            Words(
                f"A step takes {seconds(run.step_time_s)}, and no change is sure to gain.",
                f"每步 {seconds(run.step_time_s)}，没有哪项改动一定有收益。",
            )
        )  # fmt: skip
    said.extend(advice.notes)
    bad = [f for f in advice.singles if f.effect == "hurts"]
    if bad:
        listed = [f"{f.names[0]} ({three(f.speedup or 0)}×)" for f in reversed(bad)]
        said.append(
            Words(
                f"Harmful here: {', '.join(listed)}.", f"在这里有害：{'、'.join(listed)}。"
            )
        )  # fmt: skip
    said.append(
        Words(
            "All of it is predicted; nothing was run. Combinations are simulated together, not"
            " added up.",
            "以上全是预测，没有实际运行。组合是一起模拟的，不是相加。",
        )
    )  # fmt: skip
    return tuple(said)


def _changes_en(many: int) -> str:
    return f"{many} changes together" if many > 1 else "One change"


def _changes_zh(many: int) -> str:
    return f"{many} 项改动合在一起" if many > 1 else "一项改动"


def _gain_en(advice: Advice, best: Forecast) -> str:
    run = advice.case.run
    text = (
        f"{three(best.speedup or 0)}× as fast ({three(best.low or 0)} to {three(best.high or 0)}),"
        f" {seconds(run.step_time_s)} → {seconds(best.step_time_s or 0)} a step"
    )
    return text + _memory_change(advice, best, ", peak memory {} → {}")


def _gain_zh(advice: Advice, best: Forecast) -> str:
    run = advice.case.run
    text = (
        f"快到 {three(best.speedup or 0)} 倍（{three(best.low or 0)} 到 {three(best.high or 0)}），"
        f"每步 {seconds(run.step_time_s)} → {seconds(best.step_time_s or 0)}"
    )
    return text + _memory_change(advice, best, "，显存峰值 {} → {}")


def _memory_change(advice: Advice, best: Forecast, text: str) -> str:
    was, now = advice.case.run.peak_memory_bytes, best.peak_memory_bytes
    if not was or not now or abs(now - was) < 0.01 * was:
        return ""
    return text.format(size(was), size(now))


# -- sections -------------------------------------------------------------------------------------


def _path(advice: Advice) -> Section | None:
    if not advice.path:
        return None
    bars = [_bar(Words("as it is", "现状"), advice.case.run.step_time_s, "reference")]
    rows: list[tuple[Cell, ...]] = [_baseline(advice)]
    before: tuple[str, ...] = ()
    for forecast in advice.path:
        names = ", ".join(added(before, forecast.names))
        bars.append(_bar(f"+ {names}", forecast.step_time_s or 0.0, "good"))
        rows.append((f"+ {names}", *_figures(forecast), _numerics(added(before, forecast.names))))
        before = forecast.names
    table = Table(
        Words("Each with all above it", "每行包含上面所有改动"),
        (_CHANGE, _SPEED, _RANGE, _STEP, _MEMORY, _ENERGY, _RESULTS), tuple(rows),
        marked=(len(rows) - 1,),
    )  # fmt: skip
    chart = Bars(Words("A step, change by change", "逐项改动后的每步用时"), "s", tuple(bars))
    blocks: list[Block] = [chart, table]
    last = advice.path[-1]
    blocks.append(Paragraph(Words(f"In all: {last.why.en}", f"合计：{last.why.zh}")))
    if last.price is not None:
        blocks.append(
            Paragraph(Words(f"Its price: {last.price.en}", f"代价：{last.price.zh}"), "warning")
        )
    blocks.extend(_risks(advice, last))
    return Section(Words("The best combination", "最佳组合"), tuple(blocks))


def _risks(advice: Advice, last: Forecast) -> list[Block]:
    said = [(name, find(name).risk(advice.case)) for name in last.names]
    return [
        Paragraph(Words(f"{name}: {risk.en}", f"{name}：{risk.zh}"), "doubt")
        for name, risk in said if risk is not None
    ]  # fmt: skip


def _alone(advice: Advice) -> Section | None:
    good = [f for f in advice.singles if f.effect in ("helps", "little")]
    if not good:
        return None
    rows = tuple((f.names[0], *_figures(f), _numerics(f.names)) for f in good)
    table = Table(
        Words("One change at a time, against the code as it is", "一次一项，与现状相比"),
        (_CHANGE, _SPEED, _RANGE, _STEP, _MEMORY, _ENERGY, _RESULTS), rows,
        marked=tuple(at for at, f in enumerate(good) if f.effect == "helps"),
    )  # fmt: skip
    reasons = _reasons(Words("What each does", "各自的作用"), good)
    return Section(Words("Each change alone", "单项改动"), (table, reasons))


def _harmful(advice: Advice) -> Section | None:
    bad = [f for f in advice.singles if f.effect in ("hurts", "does not fit")]
    if not bad:
        return None
    rows = tuple((f.names[0], *_figures(f)) for f in bad)
    table = Table(
        Words("Slower than the code as it is", "比现状更慢"),
        (_CHANGE, _SPEED, _RANGE, _STEP, _MEMORY, _ENERGY), rows,
    )  # fmt: skip
    reasons = _reasons(Words("Why", "为什么"), bad)
    return Section(Words("What not to do here", "在这里不要做的"), (table, reasons))


def _failing(advice: Advice) -> Section | None:
    failed = [f for f in advice.singles if f.effect == "fails"]
    if not failed:
        return None
    table = _reasons(Words("Tried, and the code fails", "试过，但代码会出错"), failed)
    return Section(Words("What fails", "行不通的"), (table,))


def _impossible(advice: Advice) -> Section | None:
    far = [r for r in advice.refused if r.fit.relevant]
    if not far:
        return None
    rows = tuple((r.name, r.fit.why) for r in far)
    table = Table(Words("Changes that do not apply", "不适用的改动"), (_CHANGE, _WHY), rows)
    return Section(Words("Not possible or not needed", "不可能或不需要"), (table,))


def _reasons(title: Words, forecasts: Sequence[Forecast]) -> Table:
    rows = tuple((f.names[0], _reason(f)) for f in forecasts)
    return Table(title, (_CHANGE, _WHY), rows)


def _reason(forecast: Forecast) -> Words:
    price = forecast.price
    if price is None or forecast.effect == "fails":
        return forecast.why
    return Words(f"{forecast.why.en} {price.en}", f"{forecast.why.zh}{price.zh}")


def _baseline(advice: Advice) -> tuple[Cell, ...]:
    run = advice.case.run
    return (
        Words("as it is", "现状"), 1.0, "", run.step_time_s, run.peak_memory_bytes, run.energy_j,
        "",
    )  # fmt: skip


def _figures(forecast: Forecast) -> tuple[Cell, ...]:
    """Speedup, interval, step, memory, energy."""
    if forecast.low is None or forecast.high is None:
        interval = ""
    elif forecast.low == forecast.high:
        interval = three(forecast.low)
    else:
        interval = f"{forecast.low:.2f} – {forecast.high:.2f}"
    return (
        forecast.speedup, interval, forecast.step_time_s, forecast.peak_memory_bytes,
        forecast.energy_j,
    )  # fmt: skip


def _numerics(names: Sequence[str]) -> Words:
    """The coarsest that they may do to the results."""
    order = list(NUMERICS)
    return NUMERICS[max((find(name).numerics for name in names), key=order.index)]


def _bar(label: Cell, value_s: float, role: Role) -> Bar:
    return Bar(label, (Part(Words("a step", "一步"), value_s, role),))
