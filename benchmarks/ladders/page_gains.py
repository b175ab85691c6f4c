"""The ladders' page: gains, predicted and measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from ladder_results import Found, Gain, gains
from page_words import interval, named, percent, signed, table, times

__all__ = ["TARGET", "gains_section"]

TARGET = 0.15
"""Median error of predicted gains of single changes that was aimed at."""


def gains_section(
    found: Sequence[Found], zh: bool, recorded: Sequence[dict[str, Any]] = (), singles: str = ""
) -> str:
    """How well gains were predicted; "" where none was measured.

    Args:
        found: all cases.
        zh: in Chinese.
        recorded: rows of `validation/results/gains.json`.
        singles: what to say of single changes measured beside the ladders; "" for nothing.
    """
    made = gains(found)
    if not made and not recorded and not singles:
        return ""
    single, several = [g for g in made if g.single], [g for g in made if not g.single]
    groups = (
        (
            "one change, against the original",
            "单项改动，对比原始代码",
            [abs(g.error) for g in single if not g.trial.against],
        ),
        (
            "one change, on top of others",
            "单项改动，叠加在其他改动之上",
            [abs(g.error) for g in single if g.trial.against],
        ),
        ("one change, all", "单项改动，合计", [abs(g.error) for g in single]),
        ("several changes at once", "多项改动一起", [abs(g.error) for g in several]),
        (
            "recorded pairs ([advise.md](advise.md#how-sure-a-gain-is))",
            "已记录的成对测量（[advise.zh-CN.md](advise.zh-CN.md)）",
            [abs(r["error"]) for r in recorded],
        ),
    )
    rows = [
        [
            cn if zh else en,
            str(len(errors)),
            percent(statistics.median(errors)),
            percent(max(errors)),
        ]
        for en, cn, errors in groups
        if errors
    ]
    heads = "对象|次数|误差中位数|最大" if zh else "gains of|trials|median error|largest"
    parts = [
        "## 提速：预测与实测" if zh else "## Gains, predicted and measured",
        table(heads.split("|"), rows, "lrrr") if rows else "",
        _verdict([abs(g.error) for g in single], zh),
        singles,
        _every(made, zh),
    ]
    return "\n\n".join(part for part in parts if part)


def _verdict(errors: Sequence[float], zh: bool) -> str:
    if not errors:
        return ""
    met = statistics.median(errors) <= TARGET
    aim = f"{TARGET * 100:.0f} %"
    if zh:
        return f"目标：单项改动误差中位数不超过 {aim}；{'已达到' if met else '未达到'}。"
    return f"The aim, a median of {aim} for single changes, is {'met' if met else 'missed'}."


def _every(made: Sequence[Gain], zh: bool) -> str:
    if not made:
        return ""
    heads = (
        "案例|改动|叠加于|预测|实测|95% 区间|误差"
        if zh
        else "case|change|on top of|predicted|measured|95 % interval|error"
    )
    rows = [
        [
            g.case.name,
            named(g.trial.added),
            named(g.trial.against) or "–",
            times(g.predicted),
            times(g.measured),
            interval(g.trial.low, g.trial.high),
            signed(g.error),
        ]
        for g in made
    ]
    title = (
        f"所有既有预测又有实测的提速（{len(made)} 项）"
        if zh
        else f"Every gain that was predicted and measured ({len(made)})"
    )
    listed = table(heads.split("|"), rows, "lllrrrr")
    return f"<details><summary>{title}</summary>\n\n{listed}\n\n</details>"
