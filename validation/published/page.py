"""Write docs/published.md, its Chinese twin and results/published.csv from the results."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:
    sys.path.insert(0, str(HERE.parent))

from published.held_out import HeldOut, by_release, by_source, together  # noqa: E402
from published.page_text import HARDWARE_DOUBTS, TEXT, WHY_ZH  # noqa: E402
from published.predict_rows import NOT_RUN, RESULTS  # noqa: E402
from published.repeats import release_spreads  # noqa: E402
from published.rows import read_rows  # noqa: E402
from published.sources import factors, held_further  # noqa: E402
from published.stacks import stacks  # noqa: E402
from published.summary import Group, Judged, group, groups, judged, maker, not_predicted, scaled  # noqa: E402

DOCS = HERE.parents[1] / "docs"
TABLE = RESULTS.with_suffix(".csv")
KEPT_BACK = 1.6
"""How far rows erred that others kept back, over those that are known here."""
SERVING = 125
"""Rows of inference engines (TensorRT-LLM, vLLM, Neuron) that are left out."""


def page(entries: dict[str, dict[str, object]], lang: str) -> str:
    """The page as Markdown.

    Args:
        entries: by row id, as `predict_rows` writes them.
        lang: "en" or "zh".
    """
    words = TEXT[lang]
    rows = judged_rows(entries)
    total = len(entries)
    waiting = sum(entry.get("failed") == NOT_RUN for entry in entries.values())
    parts = [
        words["title"],
        words["intro"].format(
            total=total,
            rows=len(rows),
            waiting=waiting,
            left=total - len(rows) - waiting,
            serving=SERVING,
        ),
    ]
    both = [
        group((words[maker_name],), [r for r in rows if maker(r) == maker_name])
        for maker_name in ("NVIDIA", "others")
        if any(maker(r) == maker_name for r in rows)
    ]
    parts += [words["result"], _table(words["head_all"], both)]
    if waiting:
        parts.append(words["unfinished"].format(waiting=waiting))
    if old := sum(row.old for row in rows):
        parts.append(words["old"].format(old=old))
    by_source = groups(rows, lambda row: (row.source, row.hardware))
    parts += [words["by_source"], _table(words["head_source"], by_source)]
    parts += _held_out(entries, words)
    parts += [words["stacks"], _stacks(lang)]
    parts += [words["causes"], "\n".join(f"- {line}" for line in HARDWARE_DOUBTS[lang])]
    parts += [words["left"], _left(entries, lang)]
    parts += [words["all"], _all(rows, words["head_rows"], words["fold"])]
    return "\n\n".join(parts) + "\n"


@cache
def _releases() -> dict[str, float]:
    return release_spreads(read_rows())


def judged_rows(entries: dict[str, dict[str, object]]) -> tuple[Judged, ...]:
    """The rows that were predicted, each interval with its release's and its source's share."""
    rows = judged(entries, _releases())
    wide = factors(rows)
    return tuple(scaled(row, wide[row.source]) for row in rows)


def _percent(value: float, signed: bool = False) -> str:
    return f"{value * 100:+.1f} %" if signed else f"{value * 100:.1f} %"


def _table(head: str, made: list[Group]) -> str:
    columns = head.count("|") - 1
    names = columns - 7
    lines = [head, "|" + "---|" * names + "---:|" * 7]
    for each in made:
        cells = (
            *each.name,
            str(each.rows),
            _percent(each.median),
            _percent(each.mean),
            _percent(each.worst),
            _percent(each.bias, True),
            f"{each.coverage * 100:.0f} %",
            f"± {each.half_width * 100:.0f} %",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _held_out(entries: dict[str, dict[str, object]], words: Mapping[str, str]) -> list[str]:
    """Sources and releases with what the others tell."""
    rows = judged(entries, _releases())
    sources = by_source(rows)
    plain, leaned, covered = together(sources, rows)
    factor = sorted(each.factor for each in sources)
    told = words["held_out"].format(
        least=f"{factor[0]:.2f}",
        most=f"{factor[-1]:.2f}",
        covered=f"{covered * 100:.0f} %",
        plain=_percent(plain),
        leaned=_percent(leaned),
        further=f"{held_further(rows, KEPT_BACK) * 100:.0f} %",
    )
    releases = by_release(entries, read_rows())
    return [
        told,
        _held_table(words["head_held"], sources),
        words["releases"],
        _held_table(words["head_releases"], releases),
    ]


def _held_table(head: str, held: list[HeldOut]) -> str:
    lines = [head, "|---|" + "---:|" * 6]
    for each in held:
        cells = (
            each.name,
            str(each.rows),
            _percent(each.median),
            _percent(each.leaned),
            f"{each.factor:.2f}",
            f"{each.covered * 100:.0f} %",
            f"{each.kept * 100:.0f} %",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _stacks(lang: str) -> str:
    lines = [TEXT[lang]["head_stacks"], "|---|---|---|---|"]
    for stack in stacks():
        why, left = (stack.why, stack.left) if lang == "en" else (stack.why_zh, stack.left_zh)
        lines.append(f"| {stack.title} | `{stack.name}.toml` | {why.strip()} | {left} |")
    return "\n".join(lines)


def _left(entries: dict[str, dict[str, object]], lang: str) -> str:
    lines = [TEXT[lang]["head_left"], "|---|---|---:|"]
    for (source, why), count in not_predicted(entries).items():
        why = WHY_ZH.get(why, why) if lang == "zh" else why
        lines.append(f"| {source} | {why.replace('|', '/')} | {count} |")
    return "\n".join(lines)


def _all(rows: tuple[Judged, ...], head: str, fold: str) -> str:
    parts = []
    for source in dict.fromkeys(row.source for row in rows):
        members = [row for row in rows if row.source == source]
        lines = [
            f"<details><summary>{source} ({len(members)})</summary>\n",
            head,
            "|---|---|---:|---:|---:|---:|---|",
        ]
        for row in members:
            lines.append(
                f"| {row.model}{' †' * row.old} | {row.hardware} | {row.devices} |"
                f" {row.measured_s:.4g} s |"
                f" {row.predicted_s:.4g} s | {_percent(row.error, True)} |"
                f" {row.low_s:.4g} … {row.high_s:.4g} s |"
            )
        parts.append("\n".join(lines) + "\n\n</details>")
    return fold + "\n\n" + "\n\n".join(parts)


def table(rows: tuple[Judged, ...]) -> str:
    """Every predicted row as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            "id",
            "source",
            "model",
            "hardware",
            "devices",
            "measured_s",
            "predicted_s",
            "low_s",
            "high_s",
            "error",
            "covered",
            "old",
            "assumed",
        ]
    )
    for row in rows:
        writer.writerow(
            [
                row.id,
                row.source,
                row.model,
                row.hardware,
                row.devices,
                f"{row.measured_s:.6g}",
                f"{row.predicted_s:.6g}",
                f"{row.low_s:.6g}",
                f"{row.high_s:.6g}",
                f"{row.error:.4f}",
                int(row.covered),
                int(row.old),
                "; ".join(row.assumed),
            ]
        )
    return out.getvalue()


def main() -> int:
    """Write the three files."""
    from gpuscope.atomic import write_atomically

    entries = json.loads(RESULTS.read_text("utf-8"))
    write_atomically(DOCS / "published.md", page(entries, "en"))
    write_atomically(DOCS / "published.zh-CN.md", page(entries, "zh"))
    rows = judged_rows(entries)
    write_atomically(TABLE, table(rows))
    for each in groups(rows, lambda row: (maker(row), row.source, row.hardware)):
        print(
            f"{each.rows:4d}  {_percent(each.median):>8}  {_percent(each.bias, True):>8}"
            f"  {each.coverage * 100:3.0f} %  {' | '.join(each.name)}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
