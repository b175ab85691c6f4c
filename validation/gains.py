"""Predicted gains of single changes against measured ones: `python validation/gains.py`.

Takes every pair of recorded workloads of the zoo that differ in one thing (precision, compilation,
CUDA graphs, layout, batch), predicts the speedup for the same work with its 80 % interval as
`gpuscope advise` does, and holds it against the two measured step times. Writes
`validation/results/gains.json` and the table of `docs/advise.md` and its Chinese twin. Nothing is
tuned on it. `--check` writes nothing and fails where a page differs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE), str(HERE / "workloads")]

import pages  # noqa: E402
import predictions  # noqa: E402
from zoo import NEWEST, ZOO, Entry  # noqa: E402

RESULTS = HERE / "results" / "gains.json"
DOCS = HERE.parent / "docs"

SCRIPTS = (
    ("resnet50-first-benchmark", "resnet50-last-benchmark", "channels last", "channels last 布局"),
    (
        "llama-8b-decode-b1",
        "llama-8b-decode-static",
        "static cache, CUDA graphs",
        "静态缓存、CUDA graph",
    ),
)
"""Pairs of which one is a script of its own."""

PRECISION = ("dtype", "amp")
WORDS = {
    "dtype": ("precision", "精度"),
    "compile": ("compilation", "编译"),
    "batch": ("batch", "批大小"),
    "optimizer": ("optimizer", "优化器"),
    "attention": ("attention", "注意力"),
    "checkpointing": ("checkpointing", "重计算"),
}


def pairs() -> list[tuple[Entry, Entry, str, str]]:
    """(before, after, change, change in Chinese); after is the faster one by what was changed."""
    known = set(predictions.recorded_names())
    entries = {e.name: e for e in ZOO if e.name in known}
    found = []
    for one, other in combinations(entries.values(), 2):
        if one.target != other.target or ".py:" in one.target:
            continue
        differing = _differing(one, other)
        if len(differing) == 1 and differing <= set(WORDS):
            key = differing.pop()
            before, after = _in_order(one, other, key)
            found.append((before, after, *WORDS[key]))
    for first, second, en, zh in SCRIPTS:
        if first in entries and second in entries:
            found.append((entries[first], entries[second], en, zh))
    return found


def _differing(one: Entry, other: Entry) -> set[str]:
    """Options in which two entries differ; dtype and autocast are one."""
    keys = {k for k in {*one.options, *other.options} if one.options.get(k) != other.options.get(k)}
    return {"dtype" if key in PRECISION else key for key in keys}


def _in_order(one: Entry, other: Entry, key: str) -> tuple[Entry, Entry]:
    """What a user has first: eager, float32, the smaller batch."""
    if key == "compile":
        modes = (None, "default", "reduce-overhead", "max-autotune")
        first = modes.index(one.options.get("compile")) <= modes.index(other.options.get("compile"))
    elif key == "dtype":
        first = one.options.get("dtype") == "float32"
    elif key == "batch":
        first = int(str(one.options["batch"])) <= int(str(other.options["batch"]))
    else:
        first = True
    return (one, other) if first else (other, one)


def work_of(before: Entry, after: Entry) -> float:
    """Work of a step after over that of a step before."""
    sizes = [float(str(e.options.get("batch", 1))) for e in (before, after)]
    return sizes[1] / sizes[0]


def row_of(before: Entry, after: Entry, en: str, zh: str) -> dict[str, Any]:
    """One pair, predicted and measured."""
    import gpuscope as gs
    from gpuscope.advice.forecast.speedup import costs_of, speedup_interval

    cluster = gs.parse_target("h200")
    costs = [
        costs_of(predictions.program_of(e), cluster, predictions.constants_of(e.name))
        for e in (before, after)
    ]
    work = work_of(before, after)
    predicted, low, high = speedup_interval(costs[0], costs[1], work)
    steps = [
        json.loads((predictions.RECORDINGS / f"{e.name}.json").read_text())["step_time_s"]
        for e in (before, after)
    ]
    measured = steps[0] / steps[1] * work
    return {
        "before": before.name,
        "after": after.name,
        "change": en,
        "change_zh": zh,
        "predicted": predicted,
        "low": low,
        "high": high,
        "measured": measured,
        "error": predicted / measured - 1,
        "hit": low <= measured <= high,
        "same_host": (before.name in NEWEST) == (after.name in NEWEST),
    }


def table(rows: list[dict[str, Any]], lang: str) -> str:
    """The pairs and what they come to."""
    zh = lang == "zh"
    heads = (
        ("从", "到", "改动", "预测", "80 % 区间", "实测", "误差")
        if zh
        else ("from", "to", "change", "predicted", "80 % interval", "measured", "error")
    )
    lines = [f"| {' | '.join(heads)} |", "|---|---|---|---:|---:|---:|---:|"]
    for r in rows:
        mark = "" if r["same_host"] else " *"
        lines.append(
            f"| {r['before']} | {r['after']} | {r['change_zh' if zh else 'change']}{mark} | "
            f"{r['predicted']:.2f}× | {r['low']:.2f} – {r['high']:.2f}{'' if r['hit'] else ' ✗'} | "
            f"{r['measured']:.2f}× | {r['error'] * 100:+.1f} % |"
        )
    errors = [abs(r["error"]) for r in rows]
    hits = sum(r["hit"] for r in rows)
    middle, worst = statistics.median(errors) * 100, max(errors) * 100
    lines += [
        "",
        (
            f"{len(rows)} 对：误差中位数 {middle:.1f} %，最大 {worst:.0f} %；"
            f"{hits} 对落在 80 % 区间内。"
            "* 前后在两台主机上测量，各按自己的主机预测。"
            if zh
            else f"{len(rows)} pairs: median error {middle:.1f} %, largest {worst:.0f} %; {hits} within the"
            " 80 % interval. * Measured on two hosts; each step is predicted with its own."
        ),
    ]
    return "\n".join(lines)


def main() -> int:
    """Predict, compare, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--dry", action="store_true", help="print only")
    parser.add_argument("--render", action="store_true", help="only the pages, from the results")
    args = parser.parse_args()
    if args.render:
        rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    else:
        rows = [row_of(*pair) for pair in pairs()]
    print(table(rows, "en"))
    if args.dry:
        return 0
    same = [
        pages.splice(DOCS / name, "gains", table(rows, lang), args.check)
        for name, lang in (("advise.md", "en"), ("advise.zh-CN.md", "zh"))
    ]
    if args.check:
        return 0 if all(same) else 1
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
