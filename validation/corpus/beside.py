"""Programs measured on a device beside what is predicted: `python -m validation.corpus.beside`.

    python -m validation.corpus.beside rows.jsonl [--which first|second] [--on h200] [--json FILE]

Launches are held against each other by operator, too, where the recording tells them so: an
operator of the trace is the outermost of those around a kernel that the captured step calls.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

from validation.corpus import on_gpu, one
from validation.corpus.__main__ import preload

Row = dict[str, Any]

LAUNCHES_WITHIN, PEAK_WITHIN = 0.05, 0.03
MOST = 12
SAME = {
    "_cudnn_rnn": "rnn",
    "_cudnn_rnn_backward": "rnn_backward",
    "_efficient_attention_backward": "attention_backward",
    "_efficient_attention_forward": "attention",
    "cudnn_batch_norm": "native_batch_norm",
    "cudnn_batch_norm_backward": "native_batch_norm_backward",
}
"""A trace's word for an operator, and a captured program's."""
IN_PLACE = re.compile(r"(?<=[a-z0-9])_$")


def compare(file: Path, which: str, on: str) -> list[Row]:
    """Every measured program with its prediction."""
    measured = {name: row for name, row in on_gpu.lines(file).items() if "failed" not in row}
    one.TARGET, found = on, []
    cases = [case for case in on_gpu.chosen(which) if case.name in measured]
    preload({need for case in cases for need in case.needs})
    for case in cases:
        row, guess = measured[case.name], one.in_child(case, real=False)
        by = row.pop("by_operator", None)
        made = {"name": case.name, "measured": row, "predicted": guess}
        mine = guess.pop("launches_by", {})
        if guess["predicted"]:
            made["launches_off"] = guess["launches"] / max(row["launches"], 1) - 1
            made["peak_off"] = guess["peak_bytes"] / row["peak_bytes"] - 1
            made["step_off"] = guess["step_s"] / row["step_s"] - 1
            if by is not None:
                made["operators"] = apart(by, mine)
        found.append(made)
        print(case.name, row["launches"], guess.get("launches"), flush=True)
    return found


def apart(measured: list[Row], predicted: dict[str, int]) -> dict[str, list[int]]:
    """Operators whose kernels differ in number: measured and predicted, largest difference first.

    Args:
        measured: as `on_gpu.worked` tells a step's operators.
        predicted: kernels by captured operator.
    """
    ours: Counter[str] = Counter()
    for name, count in predicted.items():
        ours[plain(name)] += count
    real: Counter[str] = Counter()
    for each in measured:
        names = [plain(name) for name in each["op"].split(">")]
        known = [name for name in names if name in ours]
        fills = sum(
            n for name, n in each["kernels"].items() if name.startswith(("Memset", "Memcpy"))
        )
        real[(known or names[-1:])[0]] += sum(each["kernels"].values()) - fills
    differ = sorted(real.keys() | ours.keys(), key=lambda name: -abs(real[name] - ours[name]))
    return {name: [real[name], ours[name]] for name in differ if real[name] != ours[name]}


def plain(name: str) -> str:
    """An operator's name without namespace and the mark of working in place, as captured."""
    short = IN_PLACE.sub("", name.rpartition("::")[2])
    return SAME.get(short, short)


def told(rows: list[Row]) -> str:
    """A Markdown table, and how many are within the goals."""
    text = [
        "| program | launches, measured | predicted | | peak, MB | predicted | | step, ms"
        " | predicted | | operators whose launches differ |",
        "|---|" + "---:|" * 9 + "---|",
    ]
    good = [row for row in rows if "peak_off" in row]
    for row in good:
        real, guess = row["measured"], row["predicted"]
        differ = list(row.get("operators", {}).items())[:4]
        text.append(
            f"| `{row['name']}` | {real['launches']:,} | {guess['launches']:,}"
            f" | {row['launches_off']:+.1%} | {real['peak_bytes'] / 1e6:.1f}"
            f" | {guess['peak_bytes'] / 1e6:.1f} | {row['peak_off']:+.1%}"
            f" | {real['step_s'] * 1e3:.2f} | {guess['step_s'] * 1e3:.2f}"
            f" | {row['step_off']:+.0%}"
            f" | {', '.join(f'{name} {a}→{b}' for name, (a, b) in differ)} |"
        )
    sums = totals(rows)
    text += [
        "",
        f"{len(rows)} programs measured, {len(good)} predicted; launches within 5 %:"
        f" {sums['launches']}, peak memory within 3 %: {sums['peaks']}.",
    ]
    return "\n".join(text)


def totals(rows: list[Row]) -> dict[str, float]:
    """Programs measured and predicted, how many are within the goals, and the median of steps."""
    good = [row for row in rows if "peak_off" in row]
    return {
        "measured": len(rows),
        "predicted": len(good),
        "launches": sum(abs(row["launches_off"]) <= LAUNCHES_WITHIN for row in good),
        "peaks": sum(abs(row["peak_off"]) <= PEAK_WITHIN for row in good),
        "step": statistics.median(row["step_off"] for row in good),
    }


def main() -> int:
    """Predict what was measured, and tell both."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--which", default="second", choices=("first", "second"))
    parser.add_argument("--on", default="h200")
    parser.add_argument("--json", type=Path, help="keep the comparison here")
    args = parser.parse_args()
    rows = compare(args.rows, args.which, args.on)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    print(told(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
