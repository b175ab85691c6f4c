"""Fit the matrix product model to recorded kernel durations; print residuals, write the TOML.

python benchmarks/fit/matmul.py [--only bf16 fp32] [--write FILE.toml]
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
    trial,
    write_toml,
)

from gpuscope.cost.matmul.model import alignment_bytes
from gpuscope.hardware import Device, device
from gpuscope.hardware.calibration import CalibratedValue
from gpuscope.measurement.calibrate.product_operators import product


def case(recorded: Recorded) -> Case:
    """The operator behind a recorded call."""
    (op,), settings = product(recorded.bench, recorded.params)
    return Case(recorded, op, settings)


FREE = {
    "efficiency": 0.85,
    "l2_bytes_per_clock_per_unit": 44.0,
    "store_bytes_per_clock_per_unit": 30.0,
    "bandwidth_efficiency": 0.89,
    "floor_s": 1.8e-6,
    "tile_s": 5e-7,
    "split_s": 1.8e-6,
    "cold_s": 7e-7,
    "overlap": 4.0,
    "bias_store": 1.8,
}
"""Constants that are fitted for every dtype, with where to start."""

UNALIGNED = {
    "efficiency": 0.15,
    "wider_rows": 1.7,
    "gemv_s": 2.2e-6,
    "gemv_bandwidth_efficiency": 0.8,
    "l2_bytes_per_clock_per_unit": 20.0,
    "store_bytes_per_clock_per_unit": 200.0,
    "tile_s": 5e-7,
    "bandwidth_efficiency": 0.8,
    "split_s": 1.0e-6,
    "layout_nt": 1.4,
    "step_s_per_byte": 1e-9,
    "floor_s": 2.5e-6,
}
OWN_GEMV = {"gemv_s": 2.2e-6, "gemv_bandwidth_efficiency": 0.8}
THROTTLE = {"throttle": 0.2, "throttle_s": 8e-4}
UNIT = {
    "floor_s": "s",
    "tile_s": "s",
    "split_s": "s",
    "cold_s": "s",
    "throttle_s": "s",
    "gemv_s": "s",
}
DTYPES = ["bf16", "fp32", "tf32", "fp16", "int8", "fp8"]
FULL_CLOCK = 0.95
"""Above this share of its clock the device is not limited by power."""


def aligned(found: Case) -> bool:
    """Whether all rows start at multiples of 16 bytes."""
    at = 1 if found.op.name == "aten::addmm" else 0
    return alignment_bytes(*found.op.inputs[at : at + 2], *found.op.outputs) == 16


def fit_dtype(dtype: str, cases: list[Case], target: Device) -> dict[str, float]:
    """Constants of one dtype: at full clock first, then misalignment, then the power limit."""
    key = f"matmul.{dtype}."
    values = {key + n: v for n, v in FREE.items()} | {key + n: v for n, v in THROTTLE.items()}
    values[key + "throttle"] = 1e-9
    values["dirty.matmul.dirty_l2_share"] = 0.4
    if dtype in ("fp32", "tf32"):
        values |= {key + n: v for n, v in OWN_GEMV.items()}
    if dtype == "fp32":
        values[key + "narrow"] = 15.0
    if dtype == "tf32":
        values[key + "layout_tn"] = 1.6
    train = [c for c in cases if not c.recorded.held_out]
    fast = [c for c in train if c.recorded.clock > FULL_CLOCK and aligned(c)]
    names = [n for n in values if "throttle" not in n]
    say = sys.stdout.write

    def score(over: list[Case]) -> Callable[[Mapping[str, float]], float]:
        return lambda trying: loss(log_errors(over, target, trying))

    values = fit(values, score(fast), names, 7, lambda t: say(f"  {t}\n"))
    if dtype != "fp32":
        odd = [c for c in train if not aligned(c)]
        other = f"matmul.{dtype}_unaligned."
        values |= {other + n: v for n, v in (THROTTLE | UNALIGNED).items()}
        values |= {other + n: values[key + n] for n in ("cold_s", "overlap")}
        values = fit(values, score(odd), [other + n for n in UNALIGNED], 7)
    values[key + "throttle"] = THROTTLE["throttle"]
    slow = [c for c in train if aligned(c) and c.op.inputs[-1].numel > 1e6]
    return fit(values, score(slow), [key + n for n in THROTTLE], 6)


def few_points(
    dtype: str, cases: list[Case], target: Device, like: Mapping[str, float]
) -> dict[str, float]:
    """Constants of a dtype with few points: those of bfloat16, but its rate and its loads."""
    key = f"matmul.{dtype}."
    values = {n.replace("matmul.bf16", f"matmul.{dtype}"): v for n, v in like.items()}
    train = [c for c in cases if not c.recorded.held_out]
    names = [key + "efficiency", key + "l2_bytes_per_clock_per_unit"]
    return fit(values, lambda trying: loss(log_errors(train, target, trying)), names, 7)


def regime(found: Case) -> str:
    """A few words for the residual table."""
    size = sum(t.nbytes for t in (*found.op.inputs, *found.op.outputs))
    p = found.recorded.params
    intensity = 2.0 * math.prod(int(str(p[n])) for n in "mnk") * int(str(p.get("b", 1))) / size
    if found.recorded.total_s < 1e-5:
        return "short (< 10 us)"
    if intensity < 70:
        return "memory-bound"
    return "long (> 0.5 ms)" if found.recorded.total_s > 5e-4 else "arithmetic"


def report(cases: list[Case], values: Mapping[str, float], target: Device) -> None:
    """Print the errors of the held-out half by operator, layout and regime."""
    held = [c for c in cases if c.recorded.held_out]
    groups: dict[str, list[float]] = defaultdict(list)
    for found, error in zip(held, log_errors(held, target, values), strict=True):
        row = "16-byte rows" if aligned(found) else "misaligned rows"
        for name in (
            "all",
            f"{found.recorded.bench}, {row}",
            f"layout {found.recorded.params['layout']}",
            f"{found.recorded.state}",
            f"{found.recorded.bench} {regime(found)}",
        ):
            groups[name].append(error)
    for name in sorted(groups):
        sys.stdout.write(f"  held out, {name:34s} {summary(groups[name])}\n")


def intervals(
    cases: Mapping[str, list[Case]], values: Mapping[str, float], target: Device
) -> dict[str, CalibratedValue]:
    """80 % interval of predicted over measured on the held-out half, by what limits the kernel."""
    constants = trial(target, {k: v for k, v in values.items() if not k.startswith("dirty.")})
    ratios: dict[str, list[float]] = defaultdict(list)
    for found in (c for each in cases.values() for c in each if c.recorded.held_out):
        error = log_errors([found], target, values)[0]
        ratios[found.limiter(target, constants)].append(math.exp(-error))
    out = {}
    for limiter, found_ratios in ratios.items():
        ordered = sorted(abs(math.log(r)) for r in found_ratios)
        half = math.expm1(ordered[int(0.8 * (len(ordered) - 1))])
        out[f"matmul.{limiter}.scale"] = CalibratedValue(
            1.0,
            "1",
            "calibrated",
            1.0 - half,
            1.0 + half,
            f"measured over predicted, {len(ordered)} held-out points",
        )
    return out


def main() -> int:
    """Fit each dtype's constants on one half of the points, report on the other."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", nargs="*", default=DTYPES)
    parser.add_argument("--write", type=Path, default=None, help="calibration file to write")
    args = parser.parse_args()
    target = device("h200")
    by_dtype: dict[str, list[Case]] = defaultdict(list)
    for recorded in read(MICRO / "matmul.csv.gz"):
        if recorded.kernels and recorded.total_s > 0:
            by_dtype[str(recorded.params["dtype"])].append(case(recorded))
    values: dict[str, float] = {}
    for dtype in args.only:
        sys.stdout.write(f"{dtype}\n")
        few = len(by_dtype[dtype]) < 150
        like = {n: v for n, v in values.items() if ".bf16" in n or "dirty" in n}
        found = (
            few_points(dtype, by_dtype[dtype], target, like)
            if few
            else fit_dtype(dtype, by_dtype[dtype], target)
        )
        report(by_dtype[dtype], found, target)
        values |= found
    if args.write:
        entries = {
            n: CalibratedValue(v, UNIT.get(n.rsplit(".", 1)[1], "1"), "calibrated", v, v)
            for n, v in values.items()
            if not n.startswith("dirty.")
        }
        entries |= intervals({d: by_dtype[d] for d in args.only}, values, target)
        write_toml(args.write, MEASURED_WITH, entries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
