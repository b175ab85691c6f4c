"""docs/coverage.md and its Chinese twin, from the rows."""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from validation.corpus import beside

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent.parent / "docs"
TEXTS = {"": HERE / "page.md", ".zh-CN": HERE / "page.zh-CN.md"}
LEVELS = HERE / "levels.json"
RESULTS = HERE.parent / "results"
ON_A_GPU = RESULTS / "coverage-h200.json"
BESIDE = {
    "gpu": ON_A_GPU,
    "fresh": RESULTS / "corpus-h200.json",
    "after": RESULTS / "corpus-h200-after.json",
}
"""Programs beside their predictions, by the word before their figures' names."""
MOST = 12

Row = dict[str, Any]


def write(rows: dict[str, Row], names: set[str]) -> None:
    """Both pages, from the rows of the programs that the corpus still has."""
    versions = rows.get("", {}).get("versions", {})
    kept = [row for name, row in sorted(rows.items()) if name in names]
    for suffix, template in TEXTS.items():
        text = template.read_text("utf-8")
        for mark, value in figures(kept, versions, len(names)).items():
            text = text.replace("{" + mark + "}", value)
        (DOCS / f"coverage{suffix}.md").write_text(text, "utf-8")


def figures(rows: Sequence[Row], versions: dict[str, str], of: int) -> dict[str, str]:
    """What the pages say, by the mark in their text."""
    good = [row for row in rows if row["predicted"]]
    seen = [row for row in rows if "equal" in row]
    equal = sum(row["equal"] for row in seen)
    tried, made = _architectures()
    return {
        **_on_a_gpu(),
        "programs": f"{len(rows):,}",
        "of": f"{of:,}",
        "captured": f"{sum(row['captured'] for row in rows):,}",
        "predicted": f"{len(good):,}",
        "share": _share(len(good), len(rows)),
        "crashes": str(sum("crash" in row for row in rows)),
        "median": f"{statistics.median(row['seconds'] for row in rows):.1f}",
        "slowest": f"{max(row['seconds'] for row in rows):.1f}",
        "compared": f"{len(seen):,}",
        "equal": f"{equal:,}",
        "equal_share": _share(equal, len(seen)),
        "unknown": str(sum(bool(row.get("unknown")) for row in rows)),
        "table": "\n".join(_families(rows)),
        "failures": "\n".join(_failures(rows)) or "| - | - |",
        "differences": "\n".join(_differences(seen)),
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "tried": str(tried),
        "made": str(made),
    }


def _on_a_gpu() -> dict[str, str]:
    """Of each list of measured programs: how many are within the goals, the median of steps."""
    found = {}
    for word, file in BESIDE.items():
        totals = beside.totals(json.loads(file.read_text("utf-8")))
        step = f"{totals.pop('step'):.1%}".replace("-", "−").replace("%", " %")
        found |= {f"{word}_{name}": f"{value:.0f}" for name, value in totals.items()}
        found[f"{word}_step"] = step
    return found


def group(name: str) -> str:
    """The line of the table that a program is counted in; transformers has one a task."""
    parts = name.split("/")
    return f"transformers: {parts[2]}, {parts[3]}" if parts[0] == "transformers" else parts[0]


def _families(rows: Sequence[Row]) -> Iterable[str]:
    by: dict[str, list[Row]] = {}
    for row in rows:
        by.setdefault(group(row["name"]), []).append(row)
    for name, each in sorted(by.items()):
        good = sum(row["predicted"] for row in each)
        seen = [row for row in each if "equal" in row]
        equal = sum(row["equal"] for row in seen)
        slow = max(each, key=lambda row: row["seconds"])
        yield (
            f"| {name} | {len(each)} | {good} | {_share(good, len(each))} | {slow['seconds']:.1f}"
            f" | {equal} / {len(seen)} |"
        )


def _failures(rows: Sequence[Row]) -> Iterable[str]:
    for row in rows:
        if not row["predicted"]:
            said = " ".join(row.get("said", [])) or row.get("crash", "")
            said = re.sub(r"\(line (\d+) of [^)]*/([^)/]*)\)", r"(\2:\1)", said)
            yield f"| `{row['name']}` | {said.replace('|', ' ')} |"


def _differences(seen: Sequence[Row]) -> Iterable[str]:
    """Operators that only one side has, by how many programs have such."""
    sides = ("only captured", "only real")
    counts: dict[str, Counter[str]] = {side: Counter() for side in sides}
    for row in seen:
        for side in sides:
            calls = row.get("apart", {}).get(side, [])
            counts[side].update({call.split(" x ")[1].split("(")[0] for call in calls})
    total = counts[sides[0]] + counts[sides[1]]
    for name, _ in total.most_common(MOST):
        yield f"| `{name}` | {counts[sides[0]][name]} | {counts[sides[1]][name]} |"


def _architectures() -> tuple[int, int]:
    """How many entries of transformers' tables were tried, and how many run in small."""
    levels = json.loads(LEVELS.read_text("utf-8"))
    entries = [done for kinds in levels.values() for done in kinds.values()]
    return len(entries), sum(bool(done) for done in entries)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"
