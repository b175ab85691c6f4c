"""Held-out kernels, predicted against measured: `python validation/kinds.py` (no GPU).

Every point of `validation/recordings/h200/held_out.jsonl.gz` is captured as the very call that was
timed, and costed. Writes `validation/results/held_out.json`: errors by kind and by regime within
it, how often the 80 % interval holds the measurement, and how wide it is. Sums only; single rows
are printed (`--rows KIND`) of the seen third alone.

A call is captured twice in a row. The first finds nothing in the L2 ("cold": the cache is full of
written lines, which have to go first), the second what the first left there ("hot"). The clock is
the one that was read right after the point: it hangs on what ran before, not on the kernel.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import statistics
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

from held_out.points import KINDS, Params, Point  # noqa: E402
from held_out.regimes import labels  # noqa: E402

RECORDING = HERE / "recordings" / "h200" / "held_out.jsonl.gz"
RESULTS = HERE / "results" / "held_out.json"

MEMORY_KINDS = ("pointwise", "copy", "reduction", "softmax", "norm", "gather")
"""What the targets sum up as pointwise, reductions, norms, gathers."""

FEWEST = 5
"""Points that a regime needs to be shown."""


@dataclass(frozen=True)
class Judged:
    """One point and state, measured and predicted.

    Attributes:
        kind, params, state, sealed: see `held_out.points.Point`.
        measured_s, predicted_s: all kernels of the call together.
        low_s, high_s: 80 % interval of the prediction.
        kernels: names as recorded.
        why: why it could not be predicted; "" if it was.
        main: kind of the longest predicted kernel; "" where none is.
    """

    kind: str
    params: Params
    state: str
    sealed: bool
    measured_s: float
    predicted_s: float
    low_s: float
    high_s: float
    kernels: tuple[str, ...]
    why: str = ""
    main: str = ""

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted_s / self.measured_s - 1

    @property
    def hit(self) -> bool:
        """Whether the interval holds the measurement."""
        return self.low_s <= self.measured_s <= self.high_s


def recorded(path: Path = RECORDING) -> list[dict[str, Any]]:
    """Rows with a time."""
    with gzip.open(path, "rt") as lines:
        return [row for row in map(json.loads, lines) if "us" in row]


def judge(rows: Sequence[dict[str, Any]], on: str = "h200") -> list[Judged]:
    """Predict the rows, all states of a point from one capture."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    states: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        states[Point(row["kind"], row["params"]).text].append(row)
    return [
        judged
        for of_one in states.values()
        for judged in judged_point(Point(of_one[0]["kind"], of_one[0]["params"]), of_one, on)
    ]


def judged_point(point: Any, rows: list[dict[str, Any]], on: str) -> list[Judged]:
    """Predict one point's rows; a point is what has `build` (see `held_out.points.Point`)."""
    import gpuscope as gs

    def build() -> Any:
        call = point.build()
        call()  # what only a first call does (an optimizer's state) is not timed

        def step() -> None:
            call()
            call()

        return step

    try:
        program = gs.capture(build)
        return [_judged(row, program, on) for row in rows]
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        return [replace(_unknown(row), why=why) for row in rows]


def _unknown(row: dict[str, Any]) -> Judged:
    names = tuple(k[0] for k in row["kernels"])
    return Judged(
        row["kind"],
        row["params"],
        row["state"],
        row["sealed"],
        row["us"] * 1e-6,
        math.nan,
        math.nan,
        math.nan,
        names,
    )


def _judged(row: dict[str, Any], program: Any, on: str) -> Judged:
    from gpuscope.cost.engine import cost_program
    from gpuscope.hardware import calibration_for, device
    from gpuscope.measurement.calibrate.cases import CLEAN, DIRTY, at_clock
    from gpuscope.timeline.uncertainty import device_error

    target = device(on)
    base = calibration_for(target)
    highest = (target.clock_hz or 0) * 1e-6
    share = min(1.0, row["sm_mhz"] / highest) if row["sm_mhz"] and highest else 1.0
    constants = _with(base, CLEAN if row["state"] == "hot" else DIRTY)
    costed = cost_program(program, at_clock(target, round(share, 1)), constants)
    half = len(costed.ops) // 2
    ops = costed.ops[half:] if row["state"] == "hot" else costed.ops[:half]
    costed = replace(costed, ops=ops)
    seconds = sum(k.duration_s for item in ops for k in item.kernels)
    low = seconds * max(0.0, 1 - device_error(costed, lambda k: k.duration_s - k.low_s))
    high = seconds * (1 + device_error(costed, lambda k: k.high_s - k.duration_s))
    longest = max(
        (k for item in ops for k in item.kernels), key=lambda k: k.duration_s, default=None
    )
    main = longest.kind if longest else ""
    return replace(_unknown(row), predicted_s=seconds, low_s=low, high_s=high, main=main)


def _with(base: Any, values: dict[str, float]) -> Any:
    from gpuscope.hardware.calibration import CalibratedValue

    entries = dict(base.entries)
    for name, value in values.items():
        entries[name] = CalibratedValue(value, "1", "calibrated", value, value)
    return replace(base, entries=tuple(sorted(entries.items())))


def judge_all(rows: Sequence[dict[str, Any]], processes: int, on: str = "h200") -> list[Judged]:
    """`judge` on all cores."""
    if processes > 1:
        # The states of a point must come to one process: deal points out, not rows.
        texts = sorted({Point(r["kind"], r["params"]).text for r in rows})
        parts: list[list[dict[str, Any]]] = [[] for _ in range(processes * 4)]
        at = {text: i % len(parts) for i, text in enumerate(texts)}
        for row in rows:
            parts[at[Point(row["kind"], row["params"]).text]].append(row)
        with ProcessPoolExecutor(processes) as pool:
            return [j for part in pool.map(partial(judge, on=on), parts) for j in part]
    return judge(rows, on)


def figures(judged: Iterable[Judged]) -> dict[str, float | int | None]:
    """Errors, bias, coverage and width of the interval; the unpredicted count apart."""
    all_of = list(judged)
    known = [j for j in all_of if j.predicted_s > 0]
    if not known:
        return {"points": 0, "unpredicted": len(all_of)}
    errors = sorted(abs(j.error) for j in known)
    return {
        "points": len(known),
        "unpredicted": len(all_of) - len(known),
        "mean": round(statistics.mean(errors), 4),
        "median": round(statistics.median(errors), 4),
        "p90": round(errors[int(0.9 * (len(errors) - 1))], 4),
        "worst": round(errors[-1], 3),
        "bias": round(statistics.median(j.error for j in known), 4),
        "by_time": round(
            abs(sum(j.predicted_s for j in known) / sum(j.measured_s for j in known) - 1), 4
        ),
        "coverage": round(sum(j.hit for j in known) / len(known), 3),
        "width": round(statistics.median((j.high_s - j.low_s) / j.predicted_s for j in known), 3),
    }


def results(judged: Sequence[Judged]) -> dict[str, Any]:
    """The file's content: by kind the sealed points, the seen ones, regimes of the sealed."""
    out: dict[str, Any] = {}
    names = [*KINDS, "memory"]
    for kind in names:
        wanted = MEMORY_KINDS if kind == "memory" else (kind,)
        of_kind = [j for j in judged if j.kind in wanted]
        if not of_kind:
            continue
        sealed = [j for j in of_kind if j.sealed]
        groups: dict[str, list[Judged]] = defaultdict(list)
        for j in sealed if kind != "memory" else ():
            for label in labels(j.kind, j.params, j.state):
                groups[label].append(j)
        out[kind] = {
            "sealed": figures(sealed),
            "seen": figures(j for j in of_kind if not j.sealed),
            "regimes": {k: figures(v) for k, v in sorted(groups.items()) if len(v) >= FEWEST},
        }
    return out


def show(found: dict[str, Any]) -> str:
    """A table for the terminal."""
    lines = [
        f"{'kind':13s}{'regime':18s}{'n':>5s}{'mean':>8s}{'median':>8s}{'bias':>8s}"
        f"{'in 80 %':>9s}{'width':>8s}"
    ]
    for kind, entry in found.items():
        parts = [("", entry["sealed"]), ("(seen third)", entry["seen"]), *entry["regimes"].items()]
        for label, f in parts:
            if f["points"]:
                lines.append(
                    f"{kind if not label else '':13s}{label:18s}{f['points']:5d}{f['mean']:8.1%}"
                    f"{f['median']:8.1%}{f['bias']:+8.1%}{f['coverage']:9.0%}{f['width']:8.0%}"
                )
    return "\n".join(lines)


def print_rows(judged: Sequence[Judged], kinds: Sequence[str], most: int) -> None:
    """Single rows of the seen third, worst first."""
    chosen = [j for j in judged if j.kind in kinds and not j.sealed]
    for j in sorted(chosen, key=lambda j: -abs(math.log(max(j.predicted_s, 1e-9) / j.measured_s)))[
        :most
    ]:
        params = " ".join(f"{k}={v}" for k, v in j.params.items())
        times = f"{j.measured_s * 1e6:9.2f} us  predicted {j.predicted_s * 1e6:9.2f}"
        print(f"{j.error:+7.0%} {times}  {j.state:4s} {params}  {j.why}")
        print("          " + " + ".join(k[:70] for k in j.kernels))


def main() -> int:
    """Judge, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("kinds", nargs="*", help="all by default", metavar="KIND")
    parser.add_argument("--recording", type=Path, default=RECORDING)
    parser.add_argument("--on", default="h200", help="device that the recording is of")
    parser.add_argument("--rows", action="store_true", help="single rows of the seen third")
    parser.add_argument("--most", type=int, default=40, help="rows to print")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    if unknown := set(args.kinds) - set(KINDS):
        parser.error(f"no such kind: {', '.join(sorted(unknown))}; kinds are {', '.join(KINDS)}")
    if not args.recording.exists():
        parser.error(f"{args.recording} is missing; make it with validation/held_out_kernels.py")
    rows = recorded(args.recording)
    if args.rows:
        rows = [r for r in rows if not r["sealed"]]
    judged = judge_all(
        [r for r in rows if not args.kinds or r["kind"] in args.kinds], args.processes, args.on
    )
    for why in sorted({j.why for j in judged if j.why}):
        print("not predicted:", why)
    found = results(judged)
    print(show(found))
    if args.rows:
        print_rows(judged, args.kinds or KINDS, args.most)
    elif not args.dry and not args.kinds:
        name = args.recording.name.partition(".")[0]
        (RESULTS.parent / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
