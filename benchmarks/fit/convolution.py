"""Fit the convolution model to recorded kernel durations; print residuals, write the TOML.

Depthwise convolutions have constants of their own (`depthwise.py`); here they are only judged.

python benchmarks/fit/convolution.py [--write FILE.toml]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from recorded import (
    MEASURED_WITH,
    MICRO,
    Case,
    Recorded,
    fit,
    log_errors,
    loss,
    read,
    summary,
    write_toml,
)

from gpuscope.hardware import Device, calibration_for, device
from gpuscope.hardware.calibration import CalibratedValue
from gpuscope.measurement.calibrate.product_operators import convolution

PASSES = {"fwd": "forward", "dgrad": "data_gradient", "wgrad": "weight_gradient"}
START = {
    "efficiency": 0.7,
    "l2_bytes_per_clock_per_unit": 30.0,
    "store_bytes_per_clock_per_unit": 20.0,
    "bandwidth_efficiency": 0.8,
    "floor_s": 3e-6,
    "tile_s": 1e-6,
    "split_s": 2e-6,
    "overlap": 3.0,
    "few_channels": 2.0,
}
STREAM = {
    "convolution.stream.bandwidth_efficiency": 0.75,
    "convolution.stream.floor_s": 1.6e-6,
    "convolution.convert.elements_per_clock_per_unit": 2.3,
}


def case(recorded: Recorded) -> Case:
    """The operator behind a recorded call; 1-D ones are run as images of height 1."""
    (op,), settings = convolution(recorded.bench, recorded.params)
    return Case(recorded, op, settings)


def kind(found: Case) -> str:
    """Depthwise kernels have constants of their own."""
    p = found.recorded.params
    depthwise = p["groups"] == p["c"] and int(str(p["c"])) > 1
    return f"{'depthwise' if depthwise else 'implicit'} {p['dir']} {p['dtype']} {p['layout']}"


def report(cases: list[Case], values: Mapping[str, float], target: Device) -> None:
    """Print the errors of the held-out half by pass, precision and layout."""
    held = [c for c in cases if c.recorded.held_out]
    groups: dict[str, list[float]] = defaultdict(list)
    for found, error in zip(held, log_errors(held, target, values), strict=True):
        for name in ("all", kind(found), found.recorded.state):
            groups[name].append(error)
    for name in sorted(groups):
        sys.stdout.write(f"  held out, {name:34s} {summary(groups[name])}\n")


def intervals(cases: list[Case], values: Mapping[str, float], target: Device) -> dict[str, float]:
    """80 % half-widths of measured over predicted on the held-out half, by pass."""
    out: dict[str, float] = {}
    held = [c for c in cases if c.recorded.held_out]
    for short, long in PASSES.items():
        for depthwise in (False, True):
            some = [
                c
                for c in held
                if c.recorded.params["dir"] == short
                and kind(c).startswith("depthwise") == depthwise
            ]
            errors = sorted(abs(e) for e in log_errors(some, target, values))
            name = f"convolution.depthwise.{long}" if depthwise else f"convolution.{long}"
            out[name] = math.expm1(errors[int(0.8 * (len(errors) - 1))])
    # Conversions were fitted together with the products between them: same errors.
    first = [c for c in held if "implicit" in kind(c) and c.recorded.params["layout"] == "nchw"]
    errors = sorted(abs(e) for e in log_errors(first, target, values))
    out["convolution.stream"] = math.expm1(errors[int(0.8 * (len(errors) - 1))])
    return out


def fitted(cases: list[Case], values: dict[str, float], target: Device) -> dict[str, float]:
    """All constants of convolutions, each group on the training points that it decides."""
    train = [c for c in cases if not c.recorded.held_out]

    def score(over: list[Case]) -> Callable[[Mapping[str, float]], float]:
        return lambda trying: loss(log_errors(over, target, trying))

    values |= STREAM
    for short, long in PASSES.items():
        mine = [c for c in train if c.recorded.params["dir"] == short]
        for dtype in ("bf16", "tf32", "fp32"):
            some = [
                c
                for c in mine
                if c.recorded.params["dtype"] == dtype and kind(c).startswith("implicit")
            ]
            key = f"convolution.{long}.{dtype}."
            values |= {key + n: v for n, v in START.items()}
            values = fit(values, score(some), [key + n for n in START], 6)
        sys.stdout.write(f"{short}: train {summary(log_errors(mine, target, values))}\n")
    channels_first = [
        c for c in train if c.recorded.params["layout"] != "nhwc" and "implicit" in kind(c)
    ]
    return fit(values, score(channels_first), list(STREAM), 6)


def main() -> int:
    """Fit the constants on one half of the points, report on the other."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--write", type=Path, default=None, help="calibration file to write")
    args = parser.parse_args()
    target = device("h200")
    cases = [case(r) for r in read(MICRO / "convolution.csv.gz") if r.kernels]
    known = ("matmul.", "convolution.")
    products = {n: e.value for n, e in calibration_for(target).entries if n.startswith(known)}
    values = fitted(cases, products, target)
    report(cases, values, target)
    if args.write:
        there = {n for n, _ in calibration_for(target).entries if "depthwise" in n}
        own = {n: v for n, v in values.items() if n.startswith("convolution.") and n not in there}
        entries = {
            n: CalibratedValue(v, "s" if n.endswith("_s") else "1", "calibrated", v, v)
            for n, v in own.items()
        }
        for name, half in intervals(cases, values, target).items():
            entries[f"{name}.scale"] = CalibratedValue(
                1.0,
                "1",
                "calibrated",
                max(1.0 - half, 0.01),
                1.0 + half,
                "measured over predicted on held-out points",
            )
        write_toml(args.write, MEASURED_WITH, entries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
