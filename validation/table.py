"""Predicted against measured: `python validation/table.py` (no GPU; from the recordings).

Writes `validation/results/h200.json` (every row) and the tables of `docs/accuracy.md` and
`docs/accuracy.zh-CN.md` between their markers. `--check` writes nothing and exits with 1 where
the rows on disk differ from a fresh run by more than 1 %.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE), str(HERE / "workloads")]
RECORDINGS = HERE / "recordings" / "h200" / "zoo"
RESULTS = HERE / "results" / "h200.json"
DOCS = HERE.parent / "docs"

WHY = json.loads((HERE / "why.json").read_text()) if (HERE / "why.json").exists() else {}


def rows(names: list[str], on: str = "h200") -> list[dict[str, object]]:
    from zoo import ZOO

    import gpuscope as gs
    from measure import resolve_build

    out = []
    for entry in ZOO:
        path = RECORDINGS / f"{entry.name}.json"
        if not path.exists() or (names and entry.name not in names):
            continue
        record = json.loads(path.read_text())
        program = gs.capture(resolve_build(entry))
        task = str(entry.options.get("task", ""))
        if task:
            from dataclasses import replace

            program = replace(program, task=task)
        run = gs.predict(program, on=on)
        low, high = run.step_time_interval_s
        measured = record["step_time_s"]
        row = {
            "name": entry.name, "group": entry.group,
            "step_time_s": {
                "predicted": run.step_time_s, "low": low, "high": high, "measured": measured,
                "error": run.step_time_s / measured - 1, "hit": low <= measured <= high,
            },
            "device_busy_s": {
                "predicted": run.device_busy_s, "measured": record["kernel_sum_s"],
                "error": run.device_busy_s / record["kernel_sum_s"] - 1,
            },
            "peak_memory_bytes": {
                "predicted": run.peak_memory_bytes, "measured": record["peak_allocated_bytes"],
                "error": run.peak_memory_bytes / record["peak_allocated_bytes"] - 1,
            },
            "reserved_memory_bytes": {
                "predicted": run.reserved_memory_bytes, "measured": record["peak_reserved_bytes"],
                "error": run.reserved_memory_bytes / record["peak_reserved_bytes"] - 1,
            },
        }  # fmt: skip
        if record.get("energy_j") and run.energy_j:
            row["energy_j"] = {
                "predicted": run.energy_j, "measured": record["energy_j"],
                "error": run.energy_j / record["energy_j"] - 1,
            }  # fmt: skip
        out.append(row)
        print(
            f"{entry.name:22s} step {measured * 1e3:8.2f} ms, predicted "
            f"{run.step_time_s * 1e3:8.2f} [{low * 1e3:.2f}, {high * 1e3:.2f}] "
            f"{row['step_time_s']['error']:+7.1%}   device {row['device_busy_s']['error']:+7.1%}"
            f"   memory {row['peak_memory_bytes']['error']:+7.1%}"
            f"   energy {row.get('energy_j', {}).get('error', float('nan')):+7.1%}", flush=True,
        )  # fmt: skip
    return out


def summary(table: list[dict[str, object]]) -> dict[str, float]:
    def errors(key: str) -> list[float]:
        return [abs(r[key]["error"]) for r in table if key in r]

    out: dict[str, float] = {"rows": len(table)}
    for key in ("step_time_s", "device_busy_s", "peak_memory_bytes", "reserved_memory_bytes",
                "energy_j"):  # fmt: skip
        values = errors(key)
        if values:
            out[f"{key}_median"] = statistics.median(values)
            out[f"{key}_mean"] = statistics.mean(values)
            out[f"{key}_worst"] = max(values)
    hits = [r["step_time_s"]["hit"] for r in table]
    out["interval_hits"] = sum(hits) / max(len(hits), 1)
    out["interval_width_median"] = statistics.median(
        (r["step_time_s"]["high"] - r["step_time_s"]["low"]) / r["step_time_s"]["predicted"]
        for r in table
    )
    return out


HEADS = {
    "en": ("workload", "measured", "predicted", "80 % interval", "error", "memory measured",
           "memory error", "energy error", "note"),
    "zh": ("工作负载", "实测", "预测", "80 % 区间", "误差", "实测显存",
           "显存误差", "能耗误差", "说明"),
}  # fmt: skip


def markdown(table: list[dict[str, object]], lang: str) -> str:
    lines = ["| " + " | ".join(HEADS[lang]) + " |", "|---|" + "---:|" * 7 + "---|"]
    for r in table:
        t, m = r["step_time_s"], r["peak_memory_bytes"]
        energy = f"{r['energy_j']['error']:+.0%}" if "energy_j" in r else "–"
        note = WHY.get(r["name"], {}).get(lang, "")
        hit = "" if t["hit"] else " ✗"
        lines.append(
            f"| {r['name']} | {t['measured'] * 1e3:.2f} ms | {t['predicted'] * 1e3:.2f} ms | "
            f"{t['low'] * 1e3:.2f}–{t['high'] * 1e3:.2f}{hit} | {t['error']:+.1%} | "
            f"{m['measured'] / 2**30:.2f} GiB | {m['error']:+.1%} | {energy} | {note} |"
        )
    return "\n".join(lines)


def groups(table: list[dict[str, object]]) -> list[tuple[str, str, list[dict[str, object]]]]:
    """The rows by what they are worth: heading in English and Chinese, rows."""
    from zoo import FRESH, ZOO

    compiled = {e.name for e in ZOO if e.compiled}
    eager = [r for r in table if r["name"] not in compiled]
    return [
        ("Eager", "Eager 模式", eager),
        ("Of these, measured after every constant was fixed", "其中在所有常数确定之后才测量的",
         [r for r in eager if r["name"] in FRESH]),
        ("Under torch.compile", "torch.compile 编译", [r for r in table if r["name"] in compiled]),
    ]


def all_summaries(table: list[dict[str, object]], lang: str) -> str:
    parts = []
    for en, zh, members in groups(table):
        if members:
            parts.append(f"**{en if lang == 'en' else zh}**\n\n"
                         + summary_lines(summary(members), lang))
    return "\n\n".join(parts)


def summary_lines(s: dict[str, float], lang: str) -> str:
    rows = (
        ("step time", "每步时间", "step_time_s"), ("device busy time", "设备忙时", "device_busy_s"),
        ("peak allocated memory", "峰值已分配显存", "peak_memory_bytes"),
        ("peak reserved memory", "峰值保留显存", "reserved_memory_bytes"),
        ("energy per step", "每步能耗", "energy_j"),
    )  # fmt: skip
    heads = {"en": "| absolute error | median | mean | worst |",
             "zh": "| 绝对误差 | 中位数 | 平均 | 最差 |"}  # fmt: skip
    lines = [heads[lang], "|---|---:|---:|---:|"]
    for en, zh, key in rows:
        if f"{key}_median" in s:
            lines.append(
                f"| {en if lang == 'en' else zh} | {s[f'{key}_median']:.1%} | "
                f"{s[f'{key}_mean']:.1%} | {s[f'{key}_worst']:.1%} |"
            )
    hits, width = s["interval_hits"], s["interval_width_median"]
    if lang == "en":
        lines.append(f"\n{s['rows']:.0f} workloads. The 80 % interval of the step time holds the "
                     f"measurement in {hits:.0%} of them; its median width is {width:.0%}.")
    else:
        lines.append(f"\n共 {s['rows']:.0f} 个工作负载。"
                     f"每步时间的 80 % 区间在其中 {hits:.0%} 包含实测值；"
                     f"区间宽度的中位数为 {width:.0%}。")
    return "\n".join(lines)


def _splice(path: Path, marker: str, text: str) -> None:
    start, end = f"<!-- {marker} -->", f"<!-- /{marker} -->"
    content = path.read_text()
    if start not in content or end not in content:
        raise SystemExit(f"{path.name} has no {start} ... {end}")
    head, _, rest = content.partition(start)
    _, _, tail = rest.partition(end)
    path.write_text(f"{head}{start}\n{text}\n{end}{tail}")


def main() -> int:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--on", default="h200")
    parser.add_argument("--dry", action="store_true", help="print only")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the pages, from the results")
    args = parser.parse_args()
    table = json.loads(RESULTS.read_text())["rows"] if args.render else rows(args.names, args.on)
    s = summary(table)
    print(json.dumps({k: round(v, 4) for k, v in s.items()}, indent=1))
    if args.check:
        old = {r["name"]: r for r in json.loads(RESULTS.read_text())["rows"]}
        moved = [
            r["name"] for r in table
            if abs(r["step_time_s"]["predicted"] / old[r["name"]]["step_time_s"]["predicted"] - 1)
            > 0.01
        ]  # fmt: skip
        print("moved:", moved)
        return 1 if moved else 0
    if not args.dry and not args.names:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({"summary": s, "rows": table}, indent=1) + "\n")
        for lang, name in (("en", "accuracy.md"), ("zh", "accuracy.zh-CN.md")):
            _splice(DOCS / name, "table", markdown(table, lang))
            _splice(DOCS / name, "summary", all_summaries(table, lang))
        root = HERE.parent
        _splice(root / "README.md", "summary", all_summaries(table, "en"))
        _splice(root / "README.zh-CN.md", "summary", all_summaries(table, "zh"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
