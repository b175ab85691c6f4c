"""How far kernels of a kind are off together in one step: `python validation/kind_errors.py`.

Of every program of the unseen sets but the last (`unseen.py`; families outside of every fit) the time
of each kind of kernel (with more than 3 % of the device time) is held against what is predicted today
(`validation/results/unseen.json`). Launches of one kernel err together, different kernels
independently, and beside that all of a kind share an error of half-width S, so that 80 % of the
programs are within

    |measured / predicted - 1| <= sqrt( sum_k (own half-width of k)^2 + S^2 ).

Writes S by kind to `cost/kind_spread.toml`, and prints how many programs are within with
`cost.engine.SYSTEMATIC_SPREAD` for S and, each program judged by the others, with S. Captures the
programs, or takes them from the cache of `predictions.py`. `--check` writes nothing.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import defaultdict
from math import hypot
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE), str(HERE / "workloads")]

import predictions  # noqa: E402
import unseen  # noqa: E402

SETS = ("first", "second")
"""What S is found with: the last set judges it."""

FEWEST = 5
"""Programs that a kind needs for an S of its own."""

LEAST_SHARE = 0.03
"""Kinds with a smaller share of a step's device time are left out."""
COVERED = 0.8
STEP = 0.001

Case = tuple[float, float]
"""measured / predicted - 1, and the kernels' own half-width on that side."""


def own_errors(program: Any, on: str) -> dict[str, tuple[float, float]]:
    """By kind of kernel, how far its time is off below and above, of the kernels' own intervals."""
    from gpuscope.cost.engine import cost_program
    from gpuscope.cost.power import limit_power
    from gpuscope.hardware import calibration_for, device

    target = device(on)
    constants = calibration_for(target)
    costed = limit_power(cost_program(program, target, constants), target, constants)
    sums: dict[tuple[object, ...], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for item in costed.ops:
        for k in item.kernels:
            entry = sums[k.kind, k.dtype, k.name, k.flops, k.least_bytes, k.grid, k.tile]
            for at, seconds in enumerate(
                (k.duration_s, k.duration_s - k.low_s, k.high_s - k.duration_s)
            ):
                entry[at] += max(0.0, seconds) * item.op.repeat
    total: dict[str, float] = defaultdict(float)
    below: dict[str, float] = defaultdict(float)
    above: dict[str, float] = defaultdict(float)
    for (kind, *_), (seconds, low, high) in sums.items():
        total[str(kind)] += seconds
        below[str(kind)] = hypot(below[str(kind)], low)
        above[str(kind)] = hypot(above[str(kind)], high)
    return {k: (below[k] / s, above[k] / s) for k, s in total.items() if s > 0}


def cases() -> dict[str, list[Case]]:
    """All programs of the sets, by kind."""
    found: dict[str, list[Case]] = defaultdict(list)
    entries = {e.name: e for e in unseen.PROGRAMS}
    for row in json.loads(unseen.RESULTS.read_text(encoding="utf-8")):
        if row["set"] not in SETS or "kinds" not in row:
            continue
        own = own_errors(predictions.program_of(entries[row["name"]]), row["on"])
        whole = sum(measured for measured, _ in row["kinds"].values())
        for kind, (measured, predicted) in row["kinds"].items():
            if kind in own and predicted > 0 and measured > LEAST_SHARE * whole:
                error = measured / predicted - 1
                found[kind].append((error, own[kind][error > 0]))
    return found


def within(of_kind: list[Case], shared: float) -> float:
    """Share of the steps within, if the kind shares an error of this half-width."""
    return sum(abs(error) <= hypot(own, shared) for error, own in of_kind) / len(of_kind)


def shared_error(of_kind: list[Case]) -> float:
    """The least half-width with which `COVERED` of the steps are within."""
    at = 0
    while within(of_kind, at * STEP) < COVERED:
        at += 1
    return at * STEP


def one_out(of_kind: list[Case]) -> float:
    """Share of the programs within, each by the others' S."""
    held = 0
    for at, (error, own) in enumerate(of_kind):
        others = of_kind[:at] + of_kind[at + 1 :]
        held += abs(error) <= hypot(own, shared_error(others)) if others else 0
    return held / len(of_kind)


def main() -> int:
    """Print the table, write the file."""
    from gpuscope.atomic import write_atomically
    from gpuscope.cost.engine import SYSTEMATIC_SPREAD
    from gpuscope.cost.kind_spread import FILE

    warnings.simplefilter("ignore")
    found = cases()
    print(f"{'kind':14s} programs  within at {SYSTEMATIC_SPREAD}  S for {COVERED:.0%}  one out")
    lines = ["# Written by validation/kind_errors.py.", "[spread]"]
    for kind, of_kind in sorted(found.items()):
        shared = shared_error(of_kind)
        print(
            f"{kind:14s} {len(of_kind):8d} {within(of_kind, SYSTEMATIC_SPREAD):12.0%}"
            f" {shared:14.3f} {one_out(of_kind):8.0%}"
        )
        if len(of_kind) >= FEWEST:
            lines.append(f"{kind} = {shared:.3f}")
    if "--check" not in sys.argv:
        write_atomically(FILE, "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
