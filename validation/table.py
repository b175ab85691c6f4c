"""Predicted against measured: `python validation/table.py` (no GPU; from the recordings).

Predicts every recorded workload, joins the results for held-out kernels (`validation/kinds.py`) and
for other devices (`benchmarks/fit/leave_one_out.py`), writes `validation/results/h200.json` and the
tables of `docs/accuracy.md`, the README and their Chinese twins. `--check` writes nothing and fails
where predictions moved by more than 1 %, where a page differs from the results, or where a row
misses its target without a cause in `why.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE), str(HERE / "workloads")]

import pages  # noqa: E402
import predictions  # noqa: E402
from targets import TARGETS, met, reached, without_cause  # noqa: E402

RESULTS = HERE / "results" / "h200.json"
KINDS = HERE / "results" / "held_out.json"
SECOND = HERE / "results" / "held_out_second.json"
HARVEST = HERE / "results" / "harvest.json"
DEVICES = HERE.parent / "benchmarks" / "results" / "leave_one_out.json"
MOVED = 0.01
"""Change of a prediction, relative, above which `--check` says that it moved."""


def why() -> dict[str, dict[str, str]]:
    """Causes by row name, and by "target:<key>"."""
    path = HERE / "why.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def assembled(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """All results in one."""
    kinds = json.loads(KINDS.read_text()) if KINDS.exists() else {}
    devices = json.loads(DEVICES.read_text()) if DEVICES.exists() else {}
    harvest = json.loads(HARVEST.read_text()) if HARVEST.exists() else {}
    second = json.loads(SECOND.read_text()) if SECOND.exists() else {}
    return {
        "rows": rows,
        "kinds": kinds,
        "kinds_second": second,
        "devices": devices,
        "harvest": harvest,
        "reached": reached(rows, kinds, devices),
        "summary": pages.summary(rows),
    }


def say(results: dict[str, Any]) -> None:
    """The targets, for the terminal."""
    for target in TARGETS:
        got = results["reached"][target.key]
        if got is None:
            print(f"  ?  {target.en}: not measured")
            continue
        names = ("mean", "median", "worst", "coverage", "width")
        figures = "  ".join(f"{k} {got[k]:.1%}" for k in names if got[k] is not None)
        print(f"  {'✓' if met(target, got) else '✗'}  {target.en} (n {got['n']}): {figures}")


def main() -> int:
    """Predict, compare, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="rows of the zoo; all by default")
    parser.add_argument("--on", default="h200")
    parser.add_argument("--dry", action="store_true", help="print only")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the pages, from the results")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    old = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    rows = old if args.render else predictions.rows(args.names, args.on, args.processes)
    results = assembled(rows)
    say(results)
    missing = without_cause(rows, why(), results["reached"])
    if missing:
        print("over their target without a cause in why.json:", ", ".join(missing))
    if args.check:
        before = {r["name"]: r["step_time_s"]["predicted"] for r in old}
        moved = [
            r["name"]
            for r in rows
            if abs(r["step_time_s"]["predicted"] / before.get(r["name"], 1e9) - 1) > MOVED
        ]
        differing = [] if args.names else pages.write(results, why(), check=True)
        print("moved:", moved, " pages that differ:", differing)
        return 1 if moved or differing or missing else 0
    if len(rows) < len(predictions.recorded_names(args.names)):
        print("Nothing is written: some rows could not be predicted.")
        return 1
    if not args.dry and not args.names:
        RESULTS.parent.mkdir(exist_ok=True)
        kept = {key: results[key] for key in ("reached", "summary", "rows")}
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
        pages.write(results, why())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
