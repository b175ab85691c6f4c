"""JAX programs, predicted against measured: `python validation/jax_table.py` (no GPU).

Joins `results/jax_predictions.json` (made before the programs were measured) and
`results/jax_anew.json` (after what they taught), both by `jax_predictions.py`, with
`recordings/h200/jax/steps.jsonl.gz` (by `jax_workloads/measure.py`). Writes `results/jax.json` and
the table of `docs/frameworks.md` and its Chinese twin.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from math import log
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "jax_workloads"))

from programs import PROGRAMS  # noqa: E402

RESULTS = HERE / "results"
PREDICTED = {"blind": RESULTS / "jax_predictions.json", "anew": RESULTS / "jax_anew.json"}
MEASURED = HERE / "recordings" / "h200" / "jax" / "steps.jsonl.gz"
PAGES = {"en": "frameworks.md", "zh": "frameworks.zh-CN.md"}

HEADS = {
    "en": (
        "| program | GPUs | measured | predicted blind | error | inside | anew | error | inside "
        "| peak, measured | blind | anew |"
    ),
    "zh": (
        "| 程序 | GPU 数 | 实测 | 盲预测 | 误差 | 在区间内 | 重新预测 | 误差 | 在区间内 "
        "| 实测峰值 | 盲预测 | 重新预测 |"
    ),
}
SUMMARY = {
    "en": (
        "{kind}: step time off by {mean:.1%} in the mean (target 12 %), {median:.1%} in the "
        "median, {worst:.1%} at worst (35 %); {inside:.0%} of {n} inside the 80 % interval (75 to "
        "90 %). Peak memory: {memory:.1%} (5 %), {worst_memory:.1%} at worst."
    ),
    "zh": (
        "{kind}：步时间平均误差 {mean:.1%}（目标 12 %），中位数 {median:.1%}，最差 {worst:.1%}"
        "（35 %）；{n} 个中 {inside:.0%} 落在 80 % 区间内（75 至 90 %）。峰值内存：{memory:.1%}"
        "（5 %），最差 {worst_memory:.1%}。"
    ),
}
LEFT_OUT = {
    "en": (
        "A width from the blind errors of the other files of programs alone holds {inside} of {n} "
        "(from those of all other programs: {one})."
    ),
    "zh": "仅由其他文件中程序的盲预测误差定出的宽度包含 {n} 个中的 {inside} 个"
    "（由其余所有程序定出：{one} 个）。",
}
KINDS = {"en": {"blind": "Blind", "anew": "Anew"}, "zh": {"blind": "盲预测", "anew": "重新预测"}}

Row = dict[str, Any]


def rows() -> list[Row]:
    """Of each program what was measured and what was predicted of it."""
    predicted = {
        kind: {each["name"]: each for each in json.loads(path.read_text())}
        for kind, path in PREDICTED.items()
    }
    with gzip.open(MEASURED, "rt") as lines:
        measured = [json.loads(line) for line in lines]
    return [_row(m, {k: found[m["program"]] for k, found in predicted.items()}) for m in measured]


def _row(m: Row, predicted: dict[str, Row]) -> Row:
    return {
        "name": m["program"],
        "devices": m["devices"],
        "step_time_s": m["step_time_s"],
        "device_busy_s": m["device_busy_s"],
        "host_issue_s": m["host_issue_s"],
        "peak_memory_bytes": m["peak_memory_bytes"],
        **{kind: _against(m, p) for kind, p in predicted.items()},
    }


def _against(m: Row, p: Row) -> Row:
    wanted = ("step_time_s", "low_s", "high_s", "device_busy_s", "host_busy_s")
    return {
        **{key: p[key] for key in wanted},
        "peak_memory_bytes": p["peak_memory_bytes"],
        "error": p["step_time_s"] / m["step_time_s"] - 1,
        "inside": p["low_s"] <= m["step_time_s"] <= p["high_s"],
        "memory_error": p["peak_memory_bytes"] / m["peak_memory_bytes"] - 1,
    }


def summary(found: list[Row], kind: str) -> dict[str, float]:
    """The targets' figures."""
    errors = [abs(row[kind]["error"]) for row in found]
    memory = [abs(row[kind]["memory_error"]) for row in found]
    return {
        "n": len(found),
        "mean": mean(errors),
        "median": median(errors),
        "worst": max(errors),
        "inside": mean(row[kind]["inside"] for row in found),
        "memory": mean(memory),
        "worst_memory": max(memory),
    }


def left_out(found: list[Row]) -> dict[str, int]:
    """How many programs are within the 80 % quantile of other programs' blind errors."""
    file = {name: where.partition(".")[0] for name, where in PROGRAMS.items()}
    errors = {row["name"]: abs(log(1 + row["blind"]["error"])) for row in found}

    def inside(name: str, others: list[str]) -> bool:
        return bool(
            errors[name] <= quantiles([errors[o] for o in others], n=5, method="inclusive")[3]
        )

    return {
        "n": len(errors),
        "one": sum(inside(n, [o for o in errors if o != n]) for n in errors),
        "inside": sum(inside(n, [o for o in errors if file[o] != file[n]]) for n in errors),
    }


def table(found: list[Row], lang: str) -> str:
    """As Markdown."""
    columns = HEADS[lang].count("|") - 1
    lines = [HEADS[lang], "|---|" + "---:|" * (columns - 1)]
    for row in sorted(found, key=lambda row: row["name"]):
        cells = [row["name"], str(row["devices"]), f"{1e3 * row['step_time_s']:.3g} ms"]
        for kind in PREDICTED:
            p = row[kind]
            cells += [f"{1e3 * p['step_time_s']:.3g} ms", f"{p['error']:+.1%}"]
            cells.append("✓" if p["inside"] else "✗")
        cells.append(f"{row['peak_memory_bytes'] / 2**30:.2f} GiB")
        cells += [f"{row[kind]['memory_error']:+.1%}" for kind in PREDICTED]
        lines.append("| " + " | ".join(cells) + " |")
    for kind in PREDICTED:
        said = SUMMARY[lang].format(kind=KINDS[lang][kind], **summary(found, kind))
        lines += ["", said]
    lines += ["", LEFT_OUT[lang].format(**left_out(found))]
    return re.sub(r"(?<=\d)%", " %", "\n".join(lines))


def main() -> None:
    """Join, write, print."""
    found = rows()
    made = {"summary": {kind: summary(found, kind) for kind in PREDICTED}, "rows": found}
    (RESULTS / "jax.json").write_text(json.dumps(made, indent=1) + "\n")
    for lang, page in PAGES.items():
        path = HERE.parent / "docs" / page
        block = f"<!-- jax -->\n{table(found, lang)}\n<!-- /jax -->"
        text = path.read_text("utf-8")
        path.write_text(
            re.sub(r"<!-- jax -->.*?<!-- /jax -->", lambda _, block=block: block, text, flags=re.S)
        )
    print(table(found, "en"))


if __name__ == "__main__":
    main()
