"""Harvested calls, predicted against measured: `python -m benchmarks.harvest.judge` (no GPU).

Every timed call is captured alone, twice in a row (the second finds in the L2 what the first left),
and costed at the clock that was read after it. The split is by families of models: a hash of the
family's name puts half of them among the *seen*, whose single rows may be looked at and fitted to,
and half among the *held out*, of which only sums are. A call that both make is seen. Writes
`validation/results/harvest.json`; with `--widths` also how much wider than random calls' the
intervals of the device's learned residual are to be for families unseen (`intervals.py`; after
`make residual`, which leaves them as of random calls).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import warnings
import zlib
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT), str(ROOT / "validation")]

from benchmarks.harvest import intervals  # noqa: E402
from benchmarks.harvest.calls import Call, read  # noqa: E402
from kinds import Judged, figures, judged_point  # noqa: E402

RECORDINGS = ROOT / "validation" / "recordings" / "h200"
CALLS, TIMES = RECORDINGS / "harvest_calls.jsonl.gz", RECORDINGS / "harvest.jsonl.gz"
RESULTS = ROOT / "validation" / "results" / "harvest.json"

FEWEST = 5
"""Calls that an operator needs to be shown."""


def held_out(families: set[str]) -> bool:
    """Whether no seen family makes the call."""
    return all(zlib.crc32(b"harvest" + f.encode()) % 2 for f in families)


def judge(rows: Sequence[dict[str, Any]], calls: dict[str, Call], on: str) -> list[Judged]:
    """Predict the rows, all states of a call from one capture."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    states: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        states[row["call"]].append({**row, "params": calls[row["call"]].params})
    return [j for mark, of in states.items() for j in judged_point(calls[mark], of, on)]


def judge_all(
    rows: Sequence[dict[str, Any]], calls: dict[str, Call], on: str, processes: int
) -> list[Judged]:
    """`judge` on several cores."""
    parts: list[list[dict[str, Any]]] = [[] for _ in range(processes * 8)]
    for row in rows:
        parts[int(row["call"], 16) % len(parts)].append(row)
    wanted = [{r["call"]: calls[r["call"]] for r in part} for part in parts]
    if processes == 1:
        return [j for p, w in zip(parts, wanted, strict=True) for j in judge(p, w, on)]
    with ProcessPoolExecutor(processes) as pool:
        found = pool.map(partial(judge, on=on), parts, wanted)
        return [j for part in found for j in part]


def results(judged: Sequence[Judged], families: dict[str, set[str]]) -> dict[str, Any]:
    """By kind of kernels: held-out families, seen ones, and operators of the held out."""
    out: dict[str, Any] = {}
    for kind in ("all", *sorted({j.kind for j in judged})):
        of_kind = [j for j in judged if kind in ("all", j.kind)]
        parts: dict[bool, list[Judged]] = {True: [], False: []}
        for j in of_kind:
            parts[held_out(families[Call(j.kind, j.params).mark])].append(j)
        by_op: dict[str, list[Judged]] = defaultdict(list)
        for j in parts[True] if kind != "all" else ():
            by_op[j.params["op"].split(".")[0]].append(j)
        out[kind] = {
            "held out": figures(parts[True]),
            "seen": figures(parts[False]),
            "operators": {k: figures(v) for k, v in sorted(by_op.items()) if len(v) >= FEWEST},
        }
    return out


def scored(judged: Sequence[Judged], families: dict[str, set[str]]) -> list[intervals.Scored]:
    """Calls with their distance from the prediction, for intervals."""
    found = []
    for j in judged:
        if j.predicted_s > 0:
            of = families[Call(j.kind, j.params).mark]
            apart = intervals.score(j.measured_s, j.predicted_s, j.low_s, j.high_s)
            found.append(intervals.Scored(j.main, frozenset(of), held_out(of), apart))
    return found


def write_widths(found: dict[str, dict[str, float]], on: str) -> None:
    """Multiply what the device's residual has by the new factors."""
    from gpuscope import atomic
    from gpuscope.cost import residual
    from gpuscope.hardware import device
    from gpuscope.hardware.calibration import CALIBRATIONS

    path = CALIBRATIONS / device(on).id / residual.FILE
    content = json.loads(path.read_text())
    for kind, figures_ in found.items():
        part = content["kinds"].get(kind)
        if part is None:
            continue
        # Where trees have learned from the seen families, these say little of how narrow is right.
        factor = max(1.0, figures_["factor"]) if part["trees"] else figures_["factor"]
        if factor != 1.0:
            part["width"] = round(part.get("width", 1.0) * factor, 3)
    text = json.dumps(content, separators=(",", ":")).replace('{"if"', '\n{"if"')
    atomic.write_atomically(path, text + "\n")


def show(found: dict[str, Any]) -> str:
    """A table for the terminal."""
    lines = [
        f"{'kernels':13s}{'':34s}{'n':>6s}{'mean':>8s}{'median':>8s}{'bias':>8s}{'in 80 %':>9s}"
    ]
    for kind, entry in found.items():
        parts = [("", entry["held out"]), ("(seen)", entry["seen"]), *entry["operators"].items()]
        for label, f in parts:
            if f["points"]:
                lines.append(
                    f"{kind if not label else '':13s}{label:34s}{f['points']:6d}{f['mean']:8.1%}"
                    f"{f['median']:8.1%}{f['bias']:+8.1%}{f['coverage']:9.0%}"
                )
    return "\n".join(lines)


def tensors(params: dict[str, Any]) -> str:
    """The tensors of a call in a line."""

    def words(value: Any) -> list[str]:
        if isinstance(value, list):
            return [w for v in value[:8] for w in words(v)]
        if isinstance(value, dict) and "shape" in value:
            return [f"{value['dtype']}{value['shape']}/{value['stride']}"]
        return []

    return " ".join(words(params["args"]))


def print_rows(judged: Sequence[Judged], families: dict[str, set[str]], most: int) -> None:
    """Single rows of the seen families, those that cost most microseconds first."""
    seen = [j for j in judged if not held_out(families[Call(j.kind, j.params).mark])]
    for j in sorted(seen, key=lambda j: -abs(j.predicted_s - j.measured_s))[:most]:
        print(
            f"{j.error:+7.0%} {j.measured_s * 1e6:9.2f} us  predicted {j.predicted_s * 1e6:9.2f}"
            f"  {j.state:4s} {j.params['op']} {tensors(j.params)[:200]} {j.why}"
        )
        print("          " + " + ".join(k[:70] for k in j.kernels))


def main() -> int:
    """Judge, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--calls", type=Path, default=CALLS)
    parser.add_argument("--times", type=Path, default=TIMES)
    parser.add_argument("--on", default="h200", help="device that the times are of")
    parser.add_argument("--kinds", nargs="*", help="these alone; writes nothing")
    parser.add_argument("--rows", type=int, default=0, help="single rows of the seen families")
    parser.add_argument("--share", type=int, default=1, help="every Nth call alone")
    parser.add_argument("--widths", action="store_true", help="write the intervals' factors, too")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    calls, families = read(args.calls)
    with gzip.open(args.times, "rt") as lines:
        rows = [row for row in map(json.loads, lines) if "us" in row]
    rows = [r for r in rows if int(r["call"], 16) // 1024 % args.share == 0]
    if args.kinds:
        rows = [r for r in rows if r["kind"] in args.kinds]
    judged = judge_all(rows, calls, args.on, args.processes)
    for why in sorted({j.why[:150] for j in judged if j.why}):
        print("not predicted:", why)
    found = results(judged, families)
    print(show(found))
    wider = intervals.widths(scored(judged, families))
    print(intervals.show(wider))
    if args.rows:
        print_rows(judged, families, args.rows)
    elif not args.kinds:
        if args.widths:
            write_widths(wider, args.on)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
