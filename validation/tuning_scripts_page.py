"""The section of docs/plan-accuracy.md on scripts of peft that `plan` wrote, run as they were.

Reads `results/tuning_scripts.json` (planned and committed before) and `tuning_scripts_h200.jsonl`
(measured by `tuning_scripts.py`).
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"

TEXT = {
    "en": {
        "title": "### Scripts that it wrote",
        "intro": (
            "`--for peft` writes a script. {count} were planned for an H200 and committed, then run "
            "there as they are (PyTorch 2.11, transformers 5.17, `peft`, `bitsandbytes` 0.50.2), "
            "random weights, six steps of which the first is left out. {inside} of {count} steps lie "
            "in their 80 % interval; peaks are at most {worst} off."
        ),
        "head": "| question | plan | step, planned (80 % interval) | measured | peak, planned | measured |",
        "read": (
            "The full one is paced by 8-bit AdamW, whose kernel was taken to be bound by memory. "
            "The packed one takes 107 or 212 to 255 ms a step: likely widths that were not seen "
            "before, for each of which cuDNN makes a plan of its attention (below)."
        ),
    },
    "zh": {
        "title": "### 它写出的脚本",
        "intro": (
            "`--for peft` 写出一个脚本。{count} 个脚本先按 H200 规划并提交，再原样在其上运行（PyTorch 2.11、transformers "
            "5.17、`peft`、`bitsandbytes` 0.50.2），权重随机，六步中不计第一步。{count} 个步中 {inside} 个在其 80 % 区间内；"
            "显存峰值最多差 {worst}。"
        ),
        "head": "| 问题 | 方案 | 规划的步（80 % 区间） | 实测 | 规划的峰值 | 实测 |",
        "read": (
            "全量的那个由 8 位 AdamW 决定速度，其核曾被认为受内存限制。打包的那个每步为 107 毫秒或 212 到 255 毫秒：很可能是遇到了"
            "没见过的宽度，cuDNN 要为每种宽度的注意力制定计划（见下）。"
        ),
    },
}


def cases() -> list[dict[str, Any]]:
    """Each script that ran: what was planned, and the median step and peak measured."""
    said = {each["case"]: each for each in json.loads(_text("tuning_scripts.json"))}
    lines = [json.loads(line) for line in _text("tuning_scripts_h200.jsonl").splitlines()]
    return [
        {
            **said[line["case"]],
            "measured_s": statistics.median(line["steps_s"][1:]),
            "measured_bytes": max(line["peaks"]),
        }
        for line in lines
        if line["code"] == 0
    ]


def inside(case: dict[str, Any]) -> bool:
    """Whether the step's interval holds what was measured."""
    return bool(case["low_s"] <= case["measured_s"] <= case["high_s"])


def section(lang: str) -> list[str]:
    """Paragraphs and a table, as Markdown."""
    words, found = TEXT[lang], cases()
    off = [abs(c["peak_bytes"] / c["measured_bytes"] - 1) for c in found]
    intro = words["intro"].format(
        count=len(found), inside=sum(map(inside, found)), worst=f"{100 * max(off):.3f} %"
    )
    rows = [
        f"| {c['case']} | {c['plan']} | {_ms(c['step_s'])} ({_ms(c['low_s'])}–{_ms(c['high_s'])})"
        f"{'' if inside(c) else ' ✗'} | {_ms(c['measured_s'])}"
        f" | {c['peak_bytes'] / 2**30:.2f} GiB | {c['measured_bytes'] / 2**30:.2f} GiB |"
        for c in found
    ]
    table = "\n".join((words["head"], "|---|---|---:|---:|---:|---:|", *rows))
    return [words["title"], intro, table, words["read"]]


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f} ms"


def _text(name: str) -> str:
    return (RESULTS / name).read_text(encoding="utf-8")
