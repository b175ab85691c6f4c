"""The tables of docs/accuracy.md and of the README, in both languages, from the results."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from targets import TARGETS, Row, Target, met

ROOT = Path(__file__).resolve().parent.parent

KIND_WORDS = {
    "matmul": ("matrix products", "矩阵乘法"),
    "attention": ("attention", "注意力"),
    "convolution": ("convolution", "卷积"),
    "pointwise": ("pointwise", "逐元素"),
    "copy": ("copies, casts", "拷贝、转换"),
    "reduction": ("reductions", "归约"),
    "softmax": ("softmax", "softmax"),
    "norm": ("norms", "归一化"),
    "gather": ("gathers, scatters", "聚集、散布"),
    "sort": ("sort, top-k", "排序、top-k"),
    "optimizer": ("optimizers", "优化器"),
    "loss": ("losses", "损失"),
    "recurrent": ("recurrent layers", "循环层"),
    "memory": ("memory-bound, together", "访存类合计"),
    "all": ("all together", "全部合计"),
}


def splice(path: Path, marker: str, text: str, check: bool = False) -> bool:
    """Put a text between its markers; returns whether the page already had it.

    Raises:
        SystemExit: the page lacks the markers.
    """
    start, end = f"<!-- {marker} -->", f"<!-- /{marker} -->"
    content = path.read_text(encoding="utf-8")
    found = re.search(re.escape(start) + r"\n(.*?)\n?" + re.escape(end), content, re.S)
    if not found:
        raise SystemExit(f"{path.name} has no {start} ... {end}")
    same = found.group(1).strip() == text.strip()
    if not check and not same:
        new = content[: found.start()] + f"{start}\n{text}\n{end}" + content[found.end() :]
        path.write_text(new, encoding="utf-8")
    return same


def _percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}%}".replace("%", " %")


def _limits(target: Target, lang: str) -> str:
    words = {"mean": ("mean", "平均"), "median": ("median", "中位数"), "worst": ("worst", "最差")}
    parts = []
    for name, value in (("mean", target.mean), ("median", target.median), ("worst", target.worst)):
        if value is not None:
            text = f"{value * 100:g}"
            parts.append(f"{words[name][lang == 'zh']} ≤ {text} %")
    return ("，" if lang == "zh" else ", ").join(parts)


def targets_table(got: dict[str, Row | None], why: dict[str, Row], lang: str, causes: bool) -> str:
    """Target, reached, coverage, verdict; with causes of what was missed."""
    zh = lang == "zh"
    head = (
        "| 对象 | 目标 | 个数 | 平均 | 中位数 | 最差 | 80 % 区间命中 | 达标 |"
        if zh
        else "| what | target | n | mean | median | worst | in the 80 % interval | met |"
    )
    lines = [head, "|---|---|---:|---:|---:|---:|---:|---|"]
    missed = []
    for target in TARGETS:
        of_it = got.get(target.key)
        name = target.zh if zh else target.en
        if of_it is None:
            dashes = " | ".join(["–"] * 5)
            lines.append(
                f"| {name} | {_limits(target, lang)} | {dashes} | "
                f"{'未测' if zh else 'not measured'} |"
            )
            continue
        ok = met(target, of_it)
        if not ok:
            missed.append((name, why.get(f"target:{target.key}", {}).get(lang, "")))
        lines.append(
            f"| {name} | {_limits(target, lang)} | {of_it['n']} | {_percent(of_it['mean'])} | "
            f"{_percent(of_it['median'])} | {_percent(of_it['worst'], 0)} | "
            f"{_percent(of_it['coverage'], 0)} | {'✓' if ok else '✗'} |"
        )
    text = "\n".join(lines)
    if causes and missed:
        colon = "：" if zh else ": "
        text += "\n\n" + "\n".join(f"- ✗ {name}{colon}{cause}" for name, cause in missed)
    return text


def kinds_table(kinds: Row, lang: str, held: str = "sealed", parts: str = "regimes") -> str:
    """Errors of the held-out kernels by kind, with the worst two of their parts."""
    zh = lang == "zh"
    heads = (
        (
            "内核",
            "点数",
            "平均",
            "中位数",
            "90 % 分位",
            "偏差",
            "80 % 区间命中",
            "区间宽度",
            "最差的类别",
        )
        if zh
        else (
            "kernels",
            "points",
            "mean",
            "median",
            "90th percentile",
            "bias",
            "in the 80 % interval",
            "its width",
            "worst regimes",
        )
    )
    lines = [f"| {' | '.join(heads)} |", "|---|" + "---:|" * 7 + "---|"]
    for kind, entry in kinds.items():
        f = entry[held]
        if not f["points"]:
            continue
        worst = sorted(
            ((k, v) for k, v in entry[parts].items() if v["points"]), key=lambda kv: -kv[1]["mean"]
        )[:2]
        said = ", ".join(f"{k} {v['mean']:.0%}" for k, v in worst)
        lines.append(
            f"| {KIND_WORDS[kind][zh]} | {f['points']} | {_percent(f['mean'])} | "
            f"{_percent(f['median'])} | {_percent(f['p90'], 0)} | "
            f"{f['bias']:+.1%} | {_percent(f['coverage'], 0)} | {_percent(f['width'], 0)} | "
            f"{said} |"
        )
    return "\n".join(lines)


def model_kernels_table(rows: Sequence[Row], lang: str) -> str:
    """Kernels of whole eager models by kind: total time and the mean error over models."""
    zh = lang == "zh"
    kinds: dict[str, list[list[float]]] = {}
    for row in rows:
        for kind, pair in row.get("kernels", {}).items():
            kinds.setdefault(kind, []).append(pair)
    total = sum(p[0] for parts in kinds.values() for p in parts)
    lines = [
        "| 种类 | 占实测时间 | 总时间误差 | 各模型平均误差（按时间加权） | 模型数 |"
        if zh
        else "| kind | share of measured time | error of the total | "
        "mean error over models, by time | models |",
        "|---|---:|---:|---:|---:|",
    ]
    for kind, parts in sorted(kinds.items(), key=lambda kv: -sum(p[0] for p in kv[1])):
        measured, predicted = (sum(p[i] for p in parts) for i in (0, 1))
        if measured < 1e-4 * total:
            continue
        weighted = sum(abs(p[1] - p[0]) for p in parts) / measured
        error = f"{predicted / measured - 1:+.1%}"
        lines.append(
            f"| {kind} | {measured / total:.1%} | {error} | {weighted:.1%} | "
            f"{sum(p[0] > 0 for p in parts)} |"
        )
    return "\n".join(lines)


HEADS = {
    "en": (
        "workload",
        "measured",
        "predicted",
        "80 % interval",
        "error",
        "memory measured",
        "memory error",
        "energy error",
        "note",
    ),
    "zh": (
        "工作负载",
        "实测",
        "预测",
        "80 % 区间",
        "误差",
        "实测显存",
        "显存误差",
        "能耗误差",
        "说明",
    ),
}


def workloads_table(table: Sequence[Row], why: dict[str, Row], lang: str) -> str:
    """Every workload with its cause."""
    lines = ["| " + " | ".join(HEADS[lang]) + " |", "|---|" + "---:|" * 7 + "---|"]
    for r in table:
        t, m = r["step_time_s"], r["peak_memory_bytes"]
        energy = f"{r['energy_j']['error']:+.0%}" if "energy_j" in r else "–"
        note = why.get(r["name"], {}).get(lang, "")
        hit = "" if t["hit"] else " ✗"
        lines.append(
            f"| {r['name']} | {t['measured'] * 1e3:.2f} ms | {t['predicted'] * 1e3:.2f} ms | "
            f"{t['low'] * 1e3:.2f}–{t['high'] * 1e3:.2f}{hit} | {t['error']:+.1%} | "
            f"{m['measured'] / 2**30:.2f} GiB | {m['error']:+.1%} | {energy} | {note} |"
        )
    return "\n".join(lines)


QUANTITIES = (
    ("step time", "每步时间", "step_time_s"),
    ("device busy time", "设备忙时", "device_busy_s"),
    ("peak allocated memory", "峰值已分配显存", "peak_memory_bytes"),
    ("peak reserved memory", "峰值保留显存", "reserved_memory_bytes"),
    ("energy per step", "每步能耗", "energy_j"),
)


def summary(table: Sequence[Row]) -> dict[str, float]:
    """Median, mean and worst absolute error of each quantity, coverage, width."""
    out: dict[str, float] = {"rows": len(table)}
    for _, _, key in QUANTITIES:
        values = [abs(r[key]["error"]) for r in table if key in r]
        if values:
            out[f"{key}_median"] = statistics.median(values)
            out[f"{key}_mean"] = statistics.mean(values)
            out[f"{key}_worst"] = max(values)
    times = [r["step_time_s"] for r in table]
    out["interval_hits"] = sum(t["hit"] for t in times) / max(len(times), 1)
    out["interval_width_median"] = statistics.median(
        (t["high"] - t["low"]) / t["predicted"] for t in times
    )
    return out


def summaries(table: Sequence[Row], lang: str) -> str:
    """The rows by what they are worth."""
    parts = []
    for en, zh, members in groups(table):
        if members:
            parts.append(f"**{zh if lang == 'zh' else en}**\n\n" + _summary(summary(members), lang))
    return "\n\n".join(parts)


def groups(table: Sequence[Row]) -> list[tuple[str, str, list[Row]]]:
    """Heading in English and Chinese, rows."""
    from zoo import FRESH, NEWEST

    eager = [r for r in table if r["mode"] == "eager"]
    return [
        ("Eager", "Eager 模式", eager),
        (
            "Of these, measured after every constant was fixed",
            "其中在所有常数确定之后才测量的",
            [r for r in eager if r["name"] in FRESH and r["name"] not in NEWEST],
        ),
        (
            "Of these, the newest: chosen, then measured once",
            "其中最新的：先选定，再各测一次",
            [r for r in eager if r["name"] in NEWEST],
        ),
        (
            "Compiled, or in CUDA graphs",
            "经编译或使用 CUDA 图",
            [r for r in table if r["mode"] != "eager"],
        ),
        (
            "Of these, the newest",
            "其中最新的",
            [r for r in table if r["mode"] != "eager" and r["name"] in NEWEST],
        ),
    ]


def _summary(s: dict[str, float], lang: str) -> str:
    heads = {
        "en": "| absolute error | median | mean | worst |",
        "zh": "| 绝对误差 | 中位数 | 平均 | 最差 |",
    }
    lines = [heads[lang], "|---|---:|---:|---:|"]
    for en, zh, key in QUANTITIES:
        if f"{key}_median" in s:
            lines.append(
                f"| {en if lang == 'en' else zh} | {s[f'{key}_median']:.1%} | "
                f"{s[f'{key}_mean']:.1%} | {s[f'{key}_worst']:.1%} |"
            )
    hits, width = s["interval_hits"], s["interval_width_median"]
    if lang == "en":
        lines.append(
            f"\n{s['rows']:.0f} workloads. The 80 % interval of the step time holds the "
            f"measurement in {hits:.0%} of them; its median width is {width:.0%}."
        )
    else:
        lines.append(
            f"\n共 {s['rows']:.0f} 个工作负载。"
            f"每步时间的 80 % 区间在其中 {hits:.0%} 包含实测值；"
            f"区间宽度的中位数为 {width:.0%}。"
        )
    return "\n".join(lines)


def devices_table(devices: Row, lang: str) -> str:
    """Other devices' kernels with constants carried from the others alone."""
    zh = lang == "zh"
    lines = [
        "| 设备 | 内核 | 点数 | 中位数 | 平均 | 偏差 | 80 % 区间命中 | 区间宽度 |"
        if zh
        else "| device | kernels | points | median | mean | bias | in the 80 % interval "
        "| its width |",
        "|---|---|" + "---:|" * 6,
    ]
    for d in devices.values():
        words = d["kind_zh"] if zh else d["kind"]
        lines.append(
            f"| {d['device']} | {words} | {d['points']} | {_percent(d['median'])} | "
            f"{_percent(d['mean'])} | {d['bias']:+.1%} | {_percent(d.get('coverage'), 0)} | "
            f"{_percent(d.get('width'), 0)} |"
        )
    return "\n".join(lines)


def hosts_table(rows: Sequence[Row], lang: str) -> str:
    """Newest rows that their host paces: with the shipped constants and with that host's own."""
    head = (
        "| 工作负载 | 实测 | 自带常数的误差 | 该主机自己常数的误差 | 其 80 % 区间 |"
        if lang == "zh"
        else "| workload | measured | error, shipped constants | error, its host's own |"
        " its 80 % interval |"
    )
    lines = [head, "|---|---:|---:|---:|---:|"]
    for r in rows:
        if r["host_bound"] and r["host"] != "first":
            t = r["step_time_s"]
            lines.append(
                f"| {r['name']} | {t['measured'] * 1e3:.2f} ms | {r['shipped']['error']:+.0%} | "
                f"{t['error']:+.0%} | {t['low'] * 1e3:.1f}–{t['high'] * 1e3:.1f} ms"
                f"{'' if t['hit'] else ' ✗'} |"
            )
    return "\n".join(lines)


def write(results: dict[str, Any], why: dict[str, Row], check: bool = False) -> list[str]:
    """Write (or with `check` compare) every table; returns the pages that differed."""
    rows, kinds, devices = results["rows"], results["kinds"], results["devices"]
    got, changed = results["reached"], []
    for lang, page, readme in (
        ("en", "accuracy.md", "README.md"),
        ("zh", "accuracy.zh-CN.md", "README.zh-CN.md"),
    ):
        doc, root = ROOT / "docs" / page, ROOT / readme
        texts = (
            (doc, "targets", targets_table(got, why, lang, causes=True)),
            (doc, "summary", summaries(rows, lang)),
            (doc, "kinds", kinds_table(kinds, lang)),
            (doc, "kinds-second", kinds_table(results["kinds_second"], lang)),
            (doc, "harvest", kinds_table(results["harvest"], lang, "held out", "operators")),
            (doc, "model-kernels", model_kernels_table(rows, lang)),
            (doc, "hosts", hosts_table(rows, lang)),
            (doc, "devices", devices_table(devices, lang)),
            (doc, "table", workloads_table(rows, why, lang)),
            (root, "summary", targets_table(got, why, lang, causes=False)),
        )
        for path, marker, text in texts:
            if not splice(path, marker, text, check):
                changed.append(f"{path.name}: {marker}")
    return changed
