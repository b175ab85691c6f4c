"""A machine's own calibration from recorded benches, held against the shipped one.

    python benchmarks/fit/own_calibration.py OUT.toml [--micro DIR] [--host JSON] [--bench DIR]

Reads recorded points (the micro recordings by default, or the folder of `gpuscope bench`), fits
`gpuscope.measurement.calibrate` to two thirds of them, and prints the errors on the other third
under the shipped constants and under the fitted ones. Step times of whole models: `python
validation/own.py OUT.toml`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

from recorded import summary
from recorded_points import MICRO, host_points, kernel_points

from gpuscope.hardware import Calibration, Device, calibration_for, device
from gpuscope.measurement.bench.types import Point, p90
from gpuscope.measurement.calibrate import calibrate, save_calibration
from gpuscope.measurement.calibrate.cases import case_of, log_errors


def host_json(path: Path) -> list[Point]:
    """What benchmarks/host_bench.py wrote, as points."""
    found = []
    for s in json.loads(path.read_text())["samples"]:
        if s["unit"] != "s":
            continue
        seconds = sorted(s["seconds"])
        bench = "launch" if s["group"].startswith(("launch", "queue", "graph")) else "host"
        found.append(
            Point(
                bench,
                s["group"],
                {"name": s["name"], "variant": s["variant"]},
                "host",
                seconds[len(seconds) // 2],
                seconds[0],
                p90(seconds),
                len(seconds),
            )
        )
    return found


def errors(points: list[Point], target: Device, constants: Calibration) -> dict[str, list[float]]:
    """ln(predicted / measured) of the judging third, by bench."""
    values = {name: entry.value for name, entry in constants.entries}
    found: dict[str, list[float]] = {}
    for bench in sorted({p.bench for p in points}):
        cases = [c for p in points if p.bench == bench if (c := case_of(p, target)) is not None]
        judge = [c for c in cases if c.held_out][:600]
        found[bench] = [e for e in log_errors(judge, target, values) if e == e]
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--micro", type=Path, default=MICRO)
    parser.add_argument("--host", type=Path, default=None)
    parser.add_argument("--bench", type=Path, default=None)
    parser.add_argument("--on", default="h200")
    args = parser.parse_args()
    target = device(args.on)
    if args.bench:
        from gpuscope.measurement.bench.store import load_bench

        points = list(load_bench(args.bench).points)
    else:
        points = kernel_points(args.micro)
        points += host_json(args.host) if args.host else host_points(args.micro)
    began = time.perf_counter()
    own = calibrate(points, target, say=lambda text: print(" ", text, flush=True))
    print(f"{len(points)} points, {time.perf_counter() - began:.1f} s")
    save_calibration(own, args.out)
    kernels = [p for p in points if p.state != "host"]
    shipped = errors(kernels, target, calibration_for(target))
    for bench, found in errors(kernels, target, own).items():
        if found:
            print(f"{bench:12s} shipped {summary(shipped[bench])}")
            print(f"{'':12s} own     {summary(found)}")


if __name__ == "__main__":
    sys.exit(main())
