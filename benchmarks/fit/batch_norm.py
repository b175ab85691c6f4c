"""ATen's batch-norm kernels one by one: `python benchmarks/fit/batch_norm.py [KERNEL ...]`.

A call's sum cannot tell its kernels' constants apart; the recording names each kernel. Constants
are tuned on two thirds of the points and judged on the rest; `bandwidth.py` takes what is printed
(`BATCH_NORM`). Naming a kernel lists its points.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recorded_points import MICRO, kernel_points

from gpuscope.cost.types import Kernel
from gpuscope.hardware import calibration_for, device
from gpuscope.measurement.calibrate.cases import CLEAN, DIRTY, CalibrationCase, case_of, trial

PREFIX = "normalization.batch."
STARTS: Mapping[str, Mapping[str, float]] = {
    "batch_norm_transform": {
        "transform.cycles": 0.3,
        "transform.base_s": 1e-6,
        "transform.step_s": 0.15e-6,
        "transform.load": 0.65,
    },
    "batch_norm_statistics": {
        "statistics.cycles": 0.5,
        "statistics.load": 0.65,
        "statistics.base_s": 1.5e-6,
    },
    "batch_norm_backward": {
        "backward.cycles": 1.2,
        "backward.load": 0.6,
        "backward.base_s": 1.5e-6,
    },
    "batch_norm_library_backward": {
        "library_backward.cycles": 1.3,
        "library_backward.load": 0.545,
        "library_backward.base_s": 2e-6,
    },
    **{
        f"batch_norm_{key}_channels_last": {
            f"nhwc.{key}.cycles": values[0],
            f"nhwc.{key}.base_s": values[1],
            f"nhwc.{key}.step_s": values[2],
            f"nhwc.{key}.load": values[3],
            **({"nhwc.together_s": 3e-6} if key == "statistics" else {}),
        }
        for key, values in {
            "transform": (0.32, 1e-6, 0.1e-6, 0.6),
            "statistics": (0.85, 0.4e-6, 0.22e-6, 2.5),
            "backward_reduce": (0.5, 0.5e-6, 0.1e-6, 1.0),
            "backward_apply": (0.4, 1.2e-6, 0.1e-6, 0.8),
        }.items()
    },
}
SMALL = ("invstd", "update", "memset", "fill", "copy")
"""Parts of the names of modelled kernels that are not judged here."""
TELLING = (
    "collect_stat",
    "transform_input",
    "batch_norm_backward",
    "bn_fw",
    "bn_bw",
    "native::batch_norm",
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded call and the times of its main kernels, in order, microseconds."""

    case: CalibrationCase
    state: str
    times_us: tuple[float, ...]


def recorded() -> list[Recorded]:
    """Every batch norm of the reduction bench."""
    rows: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    with gzip.open(MICRO / "reduction.csv.gz", "rt") as stream:
        for row in csv.DictReader(stream):
            if '"batch_norm' in row["params"] and any(t in row["kernel"] for t in TELLING):
                key = json.dumps(json.loads(row["params"])), row["state"]
                rows[key].setdefault(row["kernel"], float(row["median_us"]))
    found = []
    for point in kernel_points():
        times = rows.get((json.dumps(dict(point.params)), point.state))
        case = case_of(point, device("h200")) if times else None
        if case is not None and times:
            found.append(Recorded(case, point.state, tuple(times.values())))
    return found


def errors(
    points: Sequence[Recorded], over: Mapping[str, float], name: str
) -> list[tuple[float, Recorded, float, Kernel]]:
    """ln(predicted / recorded) of a kernel, the point, its time and what is said of it."""
    target = device("h200")
    values = {n: v.value for n, v in calibration_for(target).entries}
    values |= {PREFIX + n: v for n, v in over.items()}
    constants = {
        state: trial(target, {**values, **(DIRTY if state == "cold" else CLEAN)})
        for state in ("hot", "cold", "cold_clean")
    }
    found = []
    for point in points:
        kernels = point.case.kernels(target, constants[point.state])
        main = [k for k in kernels if not any(s in k.name for s in SMALL)]
        for us, kernel in zip(point.times_us, main, strict=False):
            if kernel.name == name:
                found.append((math.log(kernel.duration_s * 1e6 / us), point, us, kernel))
    return found


def loss(points: Sequence[Recorded], over: Mapping[str, float], name: str) -> float:
    """Mean of absolute and squared errors."""
    found = [e for e, *_ in errors(points, over, name)]
    return sum(abs(e) + e * e for e in found) / len(found)


def fit(points: Sequence[Recorded], name: str) -> dict[str, float]:
    """Coordinate descent with shrinking factors."""
    over = dict(STARTS[name])
    train = [p for p in points if not p.case.held_out]
    best = loss(train, over, name)
    for factor in (2.0, 1.5, 1.25, 1.1, 1.05):
        moved = True
        while moved:
            moved = False
            for key in over:
                for by in (factor, 1 / factor):
                    tried = {**over, key: over[key] * by}
                    now = loss(train, tried, name)
                    if now < best - 1e-4:
                        best, over, moved = now, tried, True
    return over


def main() -> None:
    """Fit, judge, print."""
    points = recorded()
    for name in STARTS:
        over = fit(points, name)
        found = errors(points, over, name)
        judged = [e for e, p, *_ in found if p.case.held_out]
        mean = sum(abs(math.expm1(e)) for e in judged) / len(judged)
        sys.stdout.write(
            f"{name}: {len(judged)} judged, mean {mean:.1%}, "
            f"{ {k: float(f'{v:.3g}') for k, v in over.items()} }\n"
        )
        if name in sys.argv[1:]:
            sys.stdout.write(
                "".join(
                    f"    {math.expm1(e):+6.0%} {us:8.1f} us {p.state:5s} {dict(p.case.point.params)}\n"
                    for e, p, us, _ in found
                )
            )


if __name__ == "__main__":
    main()
