"""ONNX graphs on processors, predicted against measured: a table of what others wrote.

Joins `results/onnx_processors_blind.json` (committed before any graph was measured) and
`results/onnx_processors.json` (anew, committed before the recordings named here were made) with
`recordings/processors/*.jsonl.gz`. Writes the table of `docs/frameworks.md` and its Chinese twin.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from statistics import mean, median
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS, RECORDINGS = HERE / "results", HERE / "recordings" / "processors"
PAGES = {"en": "frameworks.md", "zh": "frameworks.zh-CN.md"}

LATER = ("deit-4x256", "distilbert-3x384", "regnet-160")
"""Graphs that no recording had when they were predicted."""

HEADS = {
    "en": "| graph | measured, one core | blind | error | anew | error | inside |",
    "zh": "| 图 | 实测，一个核心 | 盲预测 | 误差 | 重新预测 | 误差 | 在区间内 |",
}
SUMMARY = {
    "en": "{what}: off by {mean:.0%} in the mean, {median:.0%} in the median, {worst:.0%} at "
    "worst; {inside} of {n} inside the interval.",
    "zh": "{what}：平均误差 {mean:.0%}，中位数 {median:.0%}，最差 {worst:.0%}；"
    "{n} 个中 {inside} 个落在区间内。",
}
WORDS = {
    "en": {
        "blind": "ONNX Runtime, one core, blind",
        "anew": "The same anew",
        "later": "Of them the three that no run had seen",
        "openvino": "OpenVINO, one core, blind",
        "other": "Another machine, one core, predicted before this run",
        "threads": "The same, all sixteen cores",
        "named": "The same from the catalogue's Xeon 8592:16, no core timed",
        "cores": "The same as :8, the cores behind the sixteen threads (seen after the run)",
    },
    "zh": {
        "blind": "ONNX Runtime，一个核心，盲预测",
        "anew": "同上，重新预测",
        "later": "其中没有任何运行见过的三个",
        "openvino": "OpenVINO，一个核心，盲预测",
        "other": "另一台机器，一个核心，在这次运行之前预测",
        "threads": "同上，全部十六个核心",
        "named": "同上，按目录中的 Xeon 8592:16 预测，没有测过任何核心",
        "cores": "同上，按 :8 预测，即十六个线程背后的核心（运行之后才知道）",
    },
}
Row = dict[str, Any]


def measured(name: str, threads: int = 1) -> dict[str, float]:
    """Seconds of a run by graph; on one core the thread's own time, the machine being busy."""
    with gzip.open(RECORDINGS / f"{name}.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    took = "thread_s" if threads == 1 else "step_time_s"
    return {r["graph"]: r[took] for r in rows if r.get("threads") == threads and took in r}


def predicted(file: str, on: str, engine: str) -> dict[str, Row]:
    """Rows by graph."""
    rows = json.loads((RESULTS / file).read_text())
    return {r["graph"]: r for r in rows if (r["on"], r["engine"]) == (on, engine)}


def pairs(name: str, rows: dict[str, Row], threads: int = 1) -> list[Row]:
    """Both of each graph."""
    return [
        {
            "graph": graph,
            "measured_s": took,
            "predicted_s": rows[graph]["step_time_s"],
            "error": rows[graph]["step_time_s"] / took - 1,
            "inside": rows[graph]["low_s"] <= took <= rows[graph]["high_s"],
        }
        for graph, took in sorted(measured(name, threads).items())
        if graph in rows
    ]


def summary(found: list[Row], what: str, lang: str) -> str:
    """One line."""
    errors = [abs(row["error"]) for row in found]
    said = SUMMARY[lang].format(
        what=what,
        mean=mean(errors),
        median=median(errors),
        worst=max(errors),
        inside=sum(row["inside"] for row in found),
        n=len(found),
    )
    return re.sub(r"(?<=\d)%", " %", said)


def sets() -> dict[str, list[Row]]:
    """What is summed up."""
    blind, anew = "onnx_processors_blind.json", "onnx_processors.json"
    found = {
        "blind": pairs("two-core", predicted(blind, "this-cpu:1", "onnxruntime")),
        "anew": pairs("two-core", predicted(anew, "two-core:1", "onnxruntime")),
        "openvino": pairs("two-core-openvino", predicted(blind, "this-cpu:1", "openvino")),
    }
    sixteen = "sixteen-core"
    found["other"] = pairs(sixteen, predicted(anew, "sixteen-core:1", "onnxruntime"))
    found["threads"] = pairs(sixteen, predicted(anew, sixteen, "onnxruntime"), threads=0)
    found["named"] = pairs(sixteen, predicted(anew, "intel-xeon-8592:16", "onnxruntime"), threads=0)
    found["cores"] = pairs(sixteen, predicted(anew, "intel-xeon-8592:8", "onnxruntime"), threads=0)
    found["later"] = [row for row in found["anew"] if row["graph"] in LATER]
    return found


def table(found: dict[str, list[Row]], lang: str) -> str:
    """As Markdown."""
    blind = {row["graph"]: row for row in found["blind"]}
    lines = [HEADS[lang], "|---|" + "---:|" * 6]
    for row in found["anew"]:
        first = blind.get(row["graph"])
        cells = [row["graph"], f"{1e3 * row['measured_s']:.3g} ms"]
        cells += (
            [f"{1e3 * first['predicted_s']:.3g} ms", f"{first['error']:+.0%}"]
            if first
            else ["–", "–"]
        )
        cells += [f"{1e3 * row['predicted_s']:.3g} ms", f"{row['error']:+.0%}"]
        cells.append("✓" if row["inside"] else "✗")
        lines.append("| " + " | ".join(cells) + " |")
    for key in ("blind", "anew", "later", "other", "threads", "named", "cores", "openvino"):
        lines += ["", summary(found[key], WORDS[lang][key], lang)]
    return re.sub(r"(?<=\d)%", " %", "\n".join(lines))


def main() -> None:
    """Join, write, print."""
    found = sets()
    for lang, page in PAGES.items():
        path = HERE.parent / "docs" / page
        block = f"<!-- processors -->\n{table(found, lang)}\n<!-- /processors -->"
        text = path.read_text("utf-8")
        marks = r"<!-- processors -->.*?<!-- /processors -->"
        path.write_text(re.sub(marks, lambda _, block=block: block, text, flags=re.S))
    print(table(found, "en"))


if __name__ == "__main__":
    main()
