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
    """Whether its step, with its own kind of host, or its memory misses the target."""
    step, memory = row["own_host_step_time_s"]["error"], row.get("peak_memory_bytes")
    sent = row.get("collectives")
    return (
        abs(step) > STEP
        or (memory is not None and abs(memory["error"]) > MEMORY)
        or (sent is not None and not sent["same"])
    )


def without_cause(rows: Sequence[Found]) -> list[str]:
    """Rows that miss a target and say no cause."""
    known = why()
    return [row["name"] for row in rows if needs_cause(row) and row["name"] not in known]


def _percent(value: float) -> str:
    return f"{value:+.1%}".replace("%", " %").replace("-", "−")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}" if seconds < 0.1 else f"{seconds * 1e3:.0f}"


HEADS = {
    "en": (
        "workload",
        "measured, ms",
        "shipped host: ms",
        "error",
        "own host: ms",
        "error",
        "80 % interval, ms",
        "peak memory",
        "collectives",
    ),
    "zh": (
        "负载",
        "实测，毫秒",
        "随附主机：毫秒",
        "误差",
        "自测主机：毫秒",
        "误差",
        "80 % 区间，毫秒",
        "峰值显存",
        "集合通信",
    ),
}
AGAIN = {
    "en": (
        "workload",
        "first machine, ms",
        "second, ms",
        "shipped host: ms",
        "error to the second",
        "own host: ms",
        "error to the second",
        "80 % interval, ms",
    ),
    "zh": (
        "负载",
        "第一台，毫秒",
        "第二台，毫秒",
        "随附主机：毫秒",
        "对第二台的误差",
        "自测主机：毫秒",
        "对第二台的误差",
        "80 % 区间，毫秒",
    ),
}
TWO = {
    "en": ("at once", "each", "times longer than alone, measured", "predicted", "error"),
    "zh": ("同时进行", "各", "比单独进行慢几倍，实测", "预测", "误差"),
}
PLANS = {
    "en": (
        "plan",
        "measured, ms",
        "shipped host: ms",
        "error",
        "own host: ms",
        "error",
        "80 % interval, ms",
        "peak memory",
    ),
    "zh": (
        "方案",
        "实测，毫秒",
        "随附主机：毫秒",
        "误差",
        "自测主机：毫秒",
        "误差",
        "80 % 区间，毫秒",
        "峰值显存",
    ),
}
SPLIT = {
    "en": (
        "workload",
        "host issues: measured, ms",
        "shipped host, ms",
        "own host, ms",
        "device busy, ms",
        "communication, ms",
        "of it exposed, ms",
    ),
    "zh": (
        "负载",
        "主机下发：实测，毫秒",
        "随附主机，毫秒",
        "自测主机，毫秒",
        "设备忙，毫秒",
        "通信，毫秒",
        "其中暴露，毫秒",
    ),
}


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(cells) + " |" for cells in body)])


def _both(row: Found) -> tuple[str, ...]:
    """Measured, and predicted with the shipped host and with the own one."""
    step, own = row["step_time_s"], row["own_host_step_time_s"]
    return (
        f"`{row['name']}`",
        _ms(step["measured"]),
        _ms(step["predicted"]),
        _percent(step["error"]),
        _ms(own["predicted"]),
        _percent(own["error"]),
        _interval(own),
    )


def _interval(timed: Found) -> str:
    return f"{_ms(timed['low'])} – {_ms(timed['high'])}"


def steps_table(rows: Sequence[Found], lang: str) -> str:
    """Measured and predicted, a row a workload."""
    equal = {"en": "equal", "zh": "一致"}[lang]
    body = []
    for row in rows:
        sent = row["collectives"]
        body.append(
            (
                *_both(row),
                _percent(row["peak_memory_bytes"]["error"]),
                f"{sent['captured']}, {equal}"
                if sent["same"]
                else f"{sent['captured']} / {sent['recorded']}",
            )
        )
    return _table(HEADS[lang], body)


def again_table(rows: Sequence[Found], lang: str) -> str:
    """What was measured once more, on the machine whose host was benched."""
    body = []
    for row in rows:
        if row["again"] is None:
            continue
        shipped, own = row["again"]["shipped"], row["again"]["own"]
        body.append(
            (
                f"`{row['name']}`",
                _ms(row["step_time_s"]["measured"]),
                _ms(own["measured"]),
                _ms(shipped["predicted"]),
                _percent(shipped["error"]),
                _ms(own["predicted"]),
                _percent(own["error"]),
                _interval(own),
            )
        )
    return _table(AGAIN[lang], body)


def two_table(pairs: Sequence[Found], lang: str) -> str:
    """Two collectives at once: how many times longer than alone, a row a pair."""
    body = []
    for pair in pairs:
        measured, predicted = pair["measured"], pair["predicted"]
        body.append(
            (
                " + ".join(f"`{name}`" for name in pair["operations"]),
                f"{pair['bytes'] >> 20} MiB",
                " / ".join(f"{v:.2f}" for v in measured),
                " / ".join(f"{v:.2f}" for v in predicted),
                _percent(statistics.mean(predicted) / statistics.mean(measured) - 1),
            )
        )
    return _table(TWO[lang], body)


def plans_table(plans: Sequence[Found], lang: str) -> str:
    """The ready-made decoders, a row a plan."""
    body = []
    for row in plans:
        memory = row["peak_memory_bytes"]
        body.append((*_both(row), "–" if memory is None else _percent(memory["error"])))
    return _table(PLANS[lang], body)


def split_table(rows: Sequence[Found], lang: str) -> str:
    """Where the time goes."""
    return _table(
        SPLIT[lang],
        [
            (
                f"`{row['name']}`",
                _ms(row["host_issue_s"]["measured"]),
                _ms(row["host_issue_s"]["predicted"]),
                _ms(row["own_host_busy_s"]),
                _ms(row["device_busy_s"]),
                _ms(row["communication_s"]),
                _ms(row["exposed_s"]),
            )
            for row in rows
        ],
    )


def summary(results: Found, lang: str) -> str:
    """The figures that matter, computed."""
    rows, plans = results["rows"], results["plans"]
    same, n = sum(r["collectives"]["same"] for r in rows), len(rows)
    said = _errors(rows), _errors(plans)
    memory = [abs(r["peak_memory_bytes"]["error"]) for r in rows]
    middle, worst = _plain(statistics.median(memory)), _plain(max(memory))
    if lang == "zh":
        return (
            f"- {n} 个负载中 {same} 个：两个 rank 的每次集合通信"
            "在种类、大小和顺序上都与录得的一致。\n"
            + "".join(
                f"- {what}，单步时间误差中位数：随附的主机常数 {shipped[0]}"
                f"（{shipped[1]} 落在区间内），自测的主机常数 {own[0]}（{own[1]}）。\n"
                for what, (shipped, own) in zip(
                    (f"{n} 个脚本", f"{len(plans)} 个现成方案"), said, strict=True
                )
            )
            + f"- 脚本的峰值显存误差中位数 {middle}，最差 {worst}。"
        )
    return (
        f"- {same} of {n} workloads: every collective of both ranks equals the recorded one in"
        " kind, size and order.\n"
        + "".join(
            f"- {what}: median error of the step {shipped[0]} with the shipped host constants"
            f" ({shipped[1]} inside the interval), {own[0]} with own ones ({own[1]}).\n"
            for what, (shipped, own) in zip(
                (f"{n} scripts", f"{len(plans)} ready-made plans"), said, strict=True
            )
        )
        + f"- Median error of the scripts' peak memory {middle}, worst {worst}."
    )


def _errors(rows: Sequence[Found]) -> list[tuple[str, str]]:
    """Median error and hits of the interval, with the shipped host and with the own one."""
    found = []
    for key in ("step_time_s", "own_host_step_time_s"):
        middle = statistics.median(abs(r[key]["error"]) for r in rows)
        found.append((_plain(middle), f"{sum(r[key]['hit'] for r in rows)}/{len(rows)}"))
    return found


def _plain(value: float) -> str:
    return f"{value:.1%}".replace("%", " %")


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
            ("summary", summary(results, lang)),
            ("steps", steps_table(results["rows"], lang)),
            ("split", split_table(results["rows"], lang)),
            ("again", again_table(results["rows"], lang)),
            ("plans", plans_table(results["plans"], lang)),
            ("two", two_table(results["two"], lang)),
            ("causes", causes([*results["rows"], *results["plans"]], lang)),
        ):
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
