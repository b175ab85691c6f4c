"""Tables of docs/accuracy.md on the programs of `unseen.py`: sums of each set, rows of all but the first."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from pages import splice

DOCS = Path(__file__).resolve().parents[1] / "docs"
SUMS = {
    "accuracy.md": "| what | by | n | mean | median | worst | in the 80 % interval |",
    "accuracy.zh-CN.md": "| 对象 | 预测 | 数目 | 平均 | 中位 | 最差 | 落在 80 % 区间 |",
}
ROWS = {
    "accuracy.md": "| program | measured | said before | 80 % interval | error | today | own host | "
    "device time | memory | energy |",
    "accuracy.zh-CN.md": "| 程序 | 实测 | 事先预测 | 80 % 区间 | 误差 | 现在 | 本机主机 | 设备时间 | 显存 | 能耗 |",
}

Row = dict[str, Any]

FIRST = (
    ("H100, step, device-bound", "h100", "step_s", False),
    ("H100, step, host-bound", "h100", "step_s", True),
    ("H200, step, host-bound", "h200", "step_s", True),
    ("H100, device time", "h100", "device_s", None),
    ("H200, device time", "h200", "device_s", None),
    ("H100, launches", "h100", "launches", None),
    ("H100, peak memory", "h100", "peak_bytes", None),
    ("H100, energy, device-bound", "h100", "energy_j", False),
    ("H100, energy, host-bound", "h100", "energy_j", True),
)
LATER = (
    ("H200, step, device-bound", "h200", "step_s", False),
    ("H200, step, host-bound", "h200", "step_s", True),
    ("H200, device time", "h200", "device_s", None),
    ("H200, launches", "h200", "launches", None),
    ("H200, peak memory", "h200", "peak_bytes", None),
    ("H200, energy, device-bound", "h200", "energy_j", False),
    ("H200, energy, host-bound", "h200", "energy_j", True),
)
"""Label, device, figure, whether the host sets the pace (None: either)."""


def paced(row: Row) -> bool:
    """Whether the host set the pace of what was measured."""
    return bool(row["measured"]["device_s"] < 0.8 * row["measured"]["step_s"])


def sums(found: list[Row], groups: tuple[tuple[str, str, str, bool | None], ...]) -> list[str]:
    """Rows of a table: what, of whom, n, mean, median, worst, in the interval."""
    lines = []
    for label, on, key, host in groups:
        kept = [r for r in found if r["on"] == on and host in (None, paced(r))]
        for whose in ("said", "today", "own"):
            pairs = [
                (r[whose], r["measured"])
                for r in kept
                if whose in r and r["measured"][key] and r[whose][key]
            ]
            if pairs and (whose != "own" or key == "step_s"):
                lines.append(_sum(label, whose, key, pairs))
    return lines


def _sum(label: str, whose: str, key: str, pairs: list[tuple[Row, Row]]) -> str:
    errors = [abs(p[key] / m[key] - 1) for p, m in pairs]
    hits = [p["low_s"] <= m["step_s"] <= p["high_s"] for p, m in pairs]
    inside = f"{sum(hits)} of {len(hits)}" if key == "step_s" else "–"
    return (
        f"| {label} | {whose} | {len(errors)} | {statistics.mean(errors):.1%} | "
        f"{statistics.median(errors):.1%} | {max(errors):.0%} | {inside} |"
    )


def each(found: list[Row]) -> list[str]:
    """A row a program."""
    return [_row(r) for r in found]


def _row(row: Row) -> str:
    said, measured = row["said"], row["measured"]

    def off(key: str, whose: str = "said") -> str:
        if not measured[key] or not row.get(whose, {}).get(key):
            return "–"
        return f"{row[whose][key] / measured[key] - 1:+.0%}"

    outside = "" if said["low_s"] <= measured["step_s"] <= said["high_s"] else " ✗"
    return (
        f"| {row['name']} | {measured['step_s'] * 1e3:.2f} ms | {said['step_s'] * 1e3:.2f} ms | "
        f"{said['low_s'] * 1e3:.1f}–{said['high_s'] * 1e3:.1f}{outside} | {off('step_s')} | "
        f"{off('step_s', 'today')} | {off('step_s', 'own')} | {off('device_s')} | "
        f"{off('peak_bytes')} | {off('energy_j')} |"
    )


def write(found: list[Row]) -> None:
    """Write the tables into both pages."""
    rule = "|---|---|---:|---:|---:|---:|---:|"
    for name in dict.fromkeys(r["set"] for r in found):
        rows = [r for r in found if r["set"] == name]
        suffix, groups = ("", FIRST) if name == "first" else (f"-{name}", LATER)
        for page, head in SUMS.items():
            text = "\n".join((head, rule, *sums(rows, groups)))
            splice(DOCS / page, f"unseen{suffix}", text, False)
            if suffix:
                text = "\n".join((ROWS[page], "|---|" + "---:|" * 9, *each(rows)))
                splice(DOCS / page, f"unseen{suffix}-each", text, False)
