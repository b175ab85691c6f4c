"""Advice from a recording as an explanation: bounds, and the findings behind them."""

from __future__ import annotations

from gpuscope.advice.results import Advice
from gpuscope.explain.numbers import percent, seconds, three
from gpuscope.explain.types import Cell, Column, Explanation, Section, Table, Words

__all__ = ["recorded_advice"]


def recorded_advice(advice: Advice) -> Explanation:
    """What `advise_run` gave, told."""
    run = advice.case.run
    sections = [_bounds(advice), _findings(advice)]
    return Explanation(
        topic="advice",
        title=Words(
            f"{run.name} on {run.target}: what to change", f"{run.target} 上的 {run.name}：该改什么"
        ),
        summary=(_first(advice), *advice.notes),
        sections=tuple(s for s in sections if s is not None),
        commands=("gpuscope advise file.py:build --on " + advice.case.device.id,),
        assumptions=tuple(Words(text, text) for text in run.assumptions),
    )  # fmt: skip


def _first(advice: Advice) -> Words:
    step = seconds(advice.case.run.step_time_s)
    sure = [f for f in advice.singles if f.effect == "helps"]
    if sure:
        best = sure[0]
        return Words(
            f"A step takes {step}. First: {best.names[0]}, {three(best.low or 1)}× to"
            f" {three(best.high or 1)}× as fast.",
            f"每步 {step}。首先：{best.names[0]}，快到 {three(best.low or 1)} 至"
            f" {three(best.high or 1)} 倍。",
        )
    gains = [f.max_gain_s for f in advice.case.analysis.findings if f.max_gain_s]
    if not gains:
        return Words(
            f"A step takes {step}, and its timeline shows nothing to gain.",
            f"每步 {step}，时间线上看不出可改进之处。",
        )
    most = max(gains) / advice.case.run.step_time_s
    return Words(
        f"A step takes {step}; the largest finding is worth at most {percent(most)} of it.",
        f"每步 {step}；最大的一项发现最多值其中的 {percent(most)}。",
    )


def _bounds(advice: Advice) -> Section | None:
    if not advice.singles:
        return None
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (f.names[0], f.low, f.high, f.why) for f in advice.singles
    )
    table = Table(
        Words("Bounds, one change at a time", "上下界，一次一项"),
        (
            Column(Words("change", "改动")), Column(Words("at least", "至少"), "ratio"),
            Column(Words("at most", "至多"), "ratio"), Column(Words("why", "原因")),
        ),
        rows, marked=tuple(at for at, f in enumerate(advice.singles) if f.effect == "helps"),
    )  # fmt: skip
    return Section(Words("What the timeline promises", "时间线能说明的收益"), (table,))


def _findings(advice: Advice) -> Section | None:
    found = [f for f in advice.case.analysis.findings if f.hint]
    if not found:
        return None
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (Words(f.title, f.title_zh or f.title), f.max_gain_s, Words(f.hint, f.hint_zh or f.hint))
        for f in found
    )
    table = Table(
        Words("Findings, the largest first", "发现，最大的在前"),
        (
            Column(Words("what", "现象")), Column(Words("at most", "最多可省"), "s"),
            Column(Words("what to try", "可尝试")),
        ),
        rows,
    )  # fmt: skip
    return Section(Words("What it shows", "记录显示"), (table,))
