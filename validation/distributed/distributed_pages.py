"""The tables of docs/distributed-accuracy.md, in both languages, from the results."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGES = {
    "en": ROOT / "docs" / "distributed-accuracy.md",
    "zh": ROOT / "docs" / "distributed-accuracy.zh-CN.md",
}
STEP, MEMORY = 0.10, 0.03
"""Errors of a row above which it needs a cause."""

Found = dict[str, Any]


def why() -> dict[str, dict[str, str]]:
    """Causes by row, in both languages."""
    return dict(json.loads((HERE / "why.json").read_text(encoding="utf-8")))


def needs_cause(row: Found) -> bool:
    """Whether its step or its memory misses the target."""
    step, memory = row["step_time_s"]["error"], row["peak_memory_bytes"]["error"]
    return abs(step) > STEP or abs(memory) > MEMORY or not row["collectives"]["same"]


def without_cause(rows: Sequence[Found]) -> list[str]:
    """Rows that miss a target and say no cause."""
    known = why()
    return [row["name"] for row in rows if needs_cause(row) and row["name"] not in known]


def _percent(value: float) -> str:
    return f"{value:+.1%}".replace("%", " %").replace("-", "−")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}" if seconds < 0.1 else f"{seconds * 1e3:.0f}"


HEADS = {
    "en": ("workload", "measured, ms", "predicted, ms", "error", "80 % interval, ms",
           "slow host: ms", "error", "peak memory", "collectives"),
    "zh": ("负载", "实测，毫秒", "预测，毫秒", "误差", "80 % 区间，毫秒",
           "慢主机：毫秒", "误差", "峰值显存", "集合通信"),
}  # fmt: skip
SPLIT = {
    "en": ("workload", "host issues: measured, ms", "predicted, ms", "device busy, ms",
           "communication, ms", "of it exposed, ms"),
    "zh": ("负载", "主机下发：实测，毫秒", "预测，毫秒", "设备忙，毫秒", "通信，毫秒",
           "其中暴露，毫秒"),
}  # fmt: skip


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(cells) + " |" for cells in body)])


def steps_table(rows: Sequence[Found], lang: str) -> str:
    """Measured and predicted, a row a workload."""
    equal = {"en": "equal", "zh": "一致"}[lang]
    body = []
    for row in rows:
        step, slow, sent = row["step_time_s"], row["slow_host_step_time_s"], row["collectives"]
        body.append((
            f"`{row['name']}`", _ms(step["measured"]), _ms(step["predicted"]),
            _percent(step["error"]), f"{_ms(step['low'])} – {_ms(step['high'])}",
            _ms(slow["predicted"]), _percent(slow["error"]),
            _percent(row["peak_memory_bytes"]["error"]),
            f"{sent['captured']}, {equal}" if sent["same"]
            else f"{sent['captured']} / {sent['recorded']}",
        ))  # fmt: skip
    return _table(HEADS[lang], body)


def split_table(rows: Sequence[Found], lang: str) -> str:
    """Where the time goes."""
    return _table(SPLIT[lang], [
        (f"`{row['name']}`", _ms(row["host_issue_s"]["measured"]),
         _ms(row["host_issue_s"]["predicted"]), _ms(row["device_busy_s"]),
         _ms(row["communication_s"]), _ms(row["exposed_s"]))
        for row in rows
    ])  # fmt: skip


def summary(results: Found, lang: str) -> str:
    """The figures that matter, computed."""
    rows = results["rows"]
    step = [abs(r["step_time_s"]["error"]) for r in rows]
    slow = [abs(r["slow_host_step_time_s"]["error"]) for r in rows]
    memory = [abs(r["peak_memory_bytes"]["error"]) for r in rows]
    hits = sum(r["step_time_s"]["hit"] for r in rows), sum(
        r["slow_host_step_time_s"]["hit"] for r in rows
    )
    same = sum(r["collectives"]["same"] for r in rows)
    n, factor = len(rows), results["host_factor"]
    figures = [f"{statistics.median(e):.1%}".replace("%", " %") for e in (step, slow, memory)]
    if lang == "zh":
        return (
            f"- {n} 个负载中 {same} 个：两个 rank 的每次集合通信"
            "在种类、大小和顺序上都与录得的一致。\n"
            f"- 单步时间误差中位数 {figures[0]}（随附的主机常数，{hits[0]}/{n} 落在区间内）；"
            f"主机时间乘以 {factor:.2f} 时为 {figures[1]}（{hits[1]}/{n}）。\n"
            f"- 峰值显存误差中位数 {figures[2]}，最差 {max(memory):.1%}。"
        )
    return (
        f"- {same} of {n} workloads: every collective of both ranks equals the recorded one in"
        " kind, size and order.\n"
        f"- Median error of the step {figures[0]} with the shipped host constants ({hits[0]} of {n}"
        f" inside the interval), {figures[1]} with host times × {factor:.2f} ({hits[1]} of {n}).\n"
        f"- Median error of peak memory {figures[2]}, worst {max(memory):.1%}."
    )


def causes(rows: Sequence[Found], lang: str) -> str:
    """What is known about the misses."""
    known = why()
    return "\n".join(
        f"- `{row['name']}`: {known[row['name']][lang]}" for row in rows if row["name"] in known
    )


def write(results: Found, check: bool = False) -> list[str]:
    """Fill the pages between their markers; returns the pages that differed.

    Raises:
        SystemExit: a page lacks the markers.
    """
    differing = []
    for lang, path in PAGES.items():
        text = path.read_text(encoding="utf-8")
        new = text
        for marker, part in (
            ("summary", summary(results, lang)), ("steps", steps_table(results["rows"], lang)),
            ("split", split_table(results["rows"], lang)),
            ("causes", causes(results["rows"], lang)),
        ):  # fmt: skip
            start, end = f"<!-- {marker} -->", f"<!-- /{marker} -->"
            if start not in new or end not in new:
                raise SystemExit(f"{path.name} has no {start} ... {end}")
            pattern = re.escape(start) + r"\n.*?" + re.escape(end)
            filled = f"{start}\n{part}\n{end}"
            new = re.sub(pattern, lambda _, filled=filled: filled, new, flags=re.S)
        if new != text:
            differing.append(path.name)
            if not check:
                path.write_text(new, encoding="utf-8")
    return differing
