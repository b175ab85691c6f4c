"""How far kernels of a kind are off together in one step: `python validation/kind_errors.py`.

Of every recorded eager step that its device paces, the time of each kind of kernel (with more than
3 % of the device time) is held against what was predicted (`validation/results/h200.json`).
Launches of one kernel err together, different kernels independently, and beside that all of a kind
share an error of half-width S, so that 80 % of the steps are within

    |ln(measured / predicted)| <= sqrt( sum_k (own half-width of k)^2 + S^2 ).

Prints S by kind, and how many steps are within with `cost.engine.SYSTEMATIC_SPREAD` for S. Where it
takes more, `advice.gain.KIND_SPREAD` has it. Captures the steps, or takes them from the cache of
`predictions.py`.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import defaultdict
from math import hypot, log
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE), str(HERE / "workloads")]

import predictions  # noqa: E402
from zoo import ZOO  # noqa: E402

RESULTS = HERE / "results" / "h200.json"
LEAST_SHARE = 0.03
"""Kinds with a smaller share of a step's device time are left out."""
COVERED = 0.8
STEP = 0.001

Case = tuple[float, float]
"""ln(measured / predicted), and the kernels' own half-width on that side."""


def own_errors(program: Any) -> dict[str, tuple[float, float]]:
    """By kind of kernel, how far its time is off below and above, of the kernels' own intervals."""
    from gpuscope.cost.engine import cost_program
    from gpuscope.cost.power import limit_power
    from gpuscope.hardware import calibration_for, device

    target = device("h200")
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
    """All recorded steps, by kind."""
    found: dict[str, list[Case]] = defaultdict(list)
    entries = {e.name: e for e in ZOO}
    for row in json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]:
        if row["host_bound"] or "kernels" not in row:
            continue
        own = own_errors(predictions.program_of(entries[row["name"]]))
        whole = sum(measured for measured, _ in row["kernels"].values())
        for kind, (measured, predicted) in row["kernels"].items():
            if kind in own and predicted > 0 and measured > LEAST_SHARE * whole:
                error = log(measured / predicted)
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


def main() -> int:
    """Print the table."""
    from gpuscope.advice.forecast.speedup import KIND_SPREAD
    from gpuscope.cost.engine import SYSTEMATIC_SPREAD

    warnings.simplefilter("ignore")
    found = cases()
    found["all"] = [case for of_kind in found.values() for case in of_kind]
    print(f"{'kind':14s} steps  within at {SYSTEMATIC_SPREAD}  S for {COVERED:.0%}  in use")
    for kind, of_kind in sorted(found.items()):
        used = max(SYSTEMATIC_SPREAD, KIND_SPREAD.get(kind, 0.0))
        print(
            f"{kind:14s} {len(of_kind):5d} {within(of_kind, SYSTEMATIC_SPREAD):12.0%}"
            f" {shared_error(of_kind):14.3f} {used:8.3f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
