"""How far kernels of a kind are off together in one step: `python validation/kind_errors.py`.

Of every eager program of the unseen sets whose prediction by kind of kernel was kept as it was said
before anybody had looked at its measurement (`kinds_said` in `validation/results/unseen.json`): by
how much each kind's time on the device was off. Launches of one kernel err together, different
kernels apart, and beside that all of a kind share an error, so that a step's device time is within

    sqrt( sum over kinds of (own half-width of k)^2 + (S_k x predicted time of k)^2 )

of what was predicted. S_k below and above is the same quantile of the kind's errors for all kinds:
the lowest with which `COVERED` of the programs, each judged by the others' errors, are within.
Writes S by kind to `cost/kind_spread.toml`. Captures the programs, or takes them from the cache of
`predictions.py`. `--check` writes nothing.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import defaultdict
from math import hypot, sqrt
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE), str(HERE / "workloads")]

import predictions  # noqa: E402
import unseen  # noqa: E402

FEWEST = 8
"""Programs that a kind needs for an S of its own."""

LEAST_SHARE = 0.03
"""Kinds with a smaller share of a step's device time are left out."""

COVERED = 0.75
"""The least that is asked of an 80 % interval on families unseen: a few programs decide the rest."""
LEVELS = [0.5 + 0.01 * n for n in range(45)]

Spreads = dict[str, tuple[float, float]]
"""Half-widths below and above that the kernels of a kind share."""


class Of(NamedTuple):
    """A kind in one program: seconds measured and said, its kernels' own relative half-widths."""

    measured_s: float
    said_s: float
    below: float
    above: float


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


def programs() -> list[dict[str, Of]]:
    """The kinds of every program."""
    found = []
    entries = {e.name: e for e in unseen.PROGRAMS}
    for row in json.loads(unseen.RESULTS.read_text(encoding="utf-8")):
        if "kinds_said" in row:
            own = own_errors(predictions.program_of(entries[row["name"]]), row["on"])
            found.append(
                {
                    kind: Of(measured, said, *own.get(kind, (0.0, 0.0)))
                    for kind, (measured, said) in row["kinds_said"].items()
                }
            )
    return found


def spreads(of: list[dict[str, Of]], level: float) -> Spreads:
    """That quantile of every kind's errors, downwards and upwards."""
    errors: dict[str, list[float]] = defaultdict(list)
    for kinds in of:
        whole = sum(kind.measured_s for kind in kinds.values())
        for name, kind in kinds.items():
            if kind.said_s > 0 and kind.measured_s > LEAST_SHARE * whole:
                errors[name].append(kind.measured_s / kind.said_s - 1)
    found = {}
    for name, seen in errors.items():
        if len(seen) >= FEWEST:
            seen.sort()
            low, high = (seen[min(len(seen) - 1, int(len(seen) * q))] for q in (1 - level, level))
            found[name] = max(0.0, -low), max(0.0, high)
    return found


def held(kinds: dict[str, Of], shared: Spreads, least: float) -> int:
    """-1, 0 or 1: a program's device time is below what is said, within, or above."""
    error_s = sum(k.measured_s - k.said_s for k in kinds.values())
    side = int(error_s > 0)
    wide_s = sqrt(
        sum(
            (hypot(kind[2 + side], max(least, shared.get(name, (0, 0))[side])) * kind.said_s) ** 2
            for name, kind in kinds.items()
        )
    )
    return 0 if abs(error_s) <= wide_s else 2 * side - 1


def one_out(of: list[dict[str, Of]], level: float, least: float) -> list[int]:
    """`held` of each program by the others' errors."""
    return [
        held(kinds, spreads(of[:at] + of[at + 1 :], level), least) for at, kinds in enumerate(of)
    ]


def main() -> int:
    """Print how many are held, write the file."""
    from gpuscope.atomic import write_atomically
    from gpuscope.cost.engine import SYSTEMATIC_SPREAD as LEAST
    from gpuscope.cost.kind_spread import FILE

    warnings.simplefilter("ignore")
    of = programs()
    for level in LEVELS:
        sides = one_out(of, level, LEAST)
        inside = sides.count(0) / len(of)
        print(
            f"quantile {level:.2f}: {inside:.0%} of {len(of)} programs within,"
            f" {sides.count(-1)} below, {sides.count(1)} above"
        )
        if inside >= COVERED:
            break
    found = spreads(of, level)
    lines = ["# Written by validation/kind_errors.py."]
    for kind, (below, above) in sorted(found.items()):
        print(f"{kind:14s} {below:.3f} {above:.3f}")
        lines.append(f"[{kind}]\nbelow = {below:.3f}\nabove = {above:.3f}")
    if "--check" not in sys.argv:
        write_atomically(FILE, "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
