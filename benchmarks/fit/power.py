"""Fit the power model to steady loads of one operator each; print residuals, write the TOML.

    python benchmarks/fit/power.py [--write FILE.toml]
    python benchmarks/fit/power.py --check      the catalogue's constants against whole workloads

The loads of `gpuscope bench --only power` are captured and costed, so that FLOPs, bytes and issue
times are those that predictions use; power, clock and rate are the recorded ones. Left out: loads
whose data is constant (zeros, signs, a fill), which switch fewer bits than real data.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

import numpy as np
from recorded import MAX_MHZ, MEASURED_WITH, MICRO, write_toml

from gpuscope.api import capture as record
from gpuscope.cost.engine import cost_program
from gpuscope.cost.power import MATRIX_KINDS, PJ_PER_BIT, limit_power, power_model
from gpuscope.cost.types import Kernel
from gpuscope.cost.workspace import with_workspaces
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import calibration_for, device
from gpuscope.hardware.calibration import CalibratedValue
from gpuscope.hardware.device import rate_name
from gpuscope.program.capture import capture
from gpuscope.program.workload import WorkloadOptions
from gpuscope.timeline import simulate

DEVICE = device("h200")
MEMORY_PJ_PER_BYTE = 8 * dict(PJ_PER_BIT)["HBM"]
CONSTANT_DATA = ("matmul_bf16_zeros", "matmul_bf16_signs", "write_hbm")
IN_L2 = ("copy_l2_16mib", "gelu_l2", "tiny_kernels", "matmul_bf16_2048")
"""Loads whose buffers never leave the L2."""
DUTY_PERIOD_S = 0.1
"""A load with a duty below 1 sleeps for the rest of every such period."""
REST_W = 115.0
"""About the power at rest, for weights only."""


@dataclass(frozen=True)
class Load:
    """A steady load, everything per second of the recording.

    Attributes:
        name: of the load.
        above_w: mean power above rest.
        share: clock over the boost clock while it runs.
        rate: of the matrix FLOPs ("bf16"); "" without.
        kind: family of the matrix FLOPs; "" without.
        flops, issue, nbytes, l2_bytes: matrix FLOPs, time spent issuing vector instructions,
            bytes of device memory and of L2.
    """

    name: str
    above_w: float
    share: float
    rate: str
    kind: str
    flops: float
    issue: float
    nbytes: float
    l2_bytes: float


def rows() -> dict[str, dict[str, str]]:
    """The recording by name of the load."""
    with gzip.open(MICRO / "power.csv.gz", "rt", newline="") as stream:
        return {row["load"]: row for row in csv.DictReader(stream)}


def kernels_of(name: str) -> list[Kernel]:
    """What one call of a load launches, its buffers as warm as they are in a loop."""
    from gpuscope.measure.bench.power_loads import LOADS

    def build() -> Callable[[], object]:
        call = LOADS[name]("cuda").call

        def step() -> None:
            call()
            call()

        return step

    found = [k for item in cost_program(capture(build), DEVICE).ops for k in item.kernels]
    return found[len(found) // 2 :]


def busy_share(name: str, row: dict[str, str]) -> float:
    """Share of the recording that a load with a duty below 1 runs: all but its sleeps."""
    if "_duty_" not in name:
        return 1.0
    seconds = float(row["seconds"])
    sleeps = round(seconds / DUTY_PERIOD_S - 0.3)
    return 1.0 - sleeps * (1.0 - float(name.rsplit("_", 1)[1])) * DUTY_PERIOD_S / seconds


def load(name: str, row: dict[str, str], idle_w: float, full: dict[str, str]) -> Load:
    """A recorded load with its work; a duty load's clock is told by its rate."""
    base = name.split("_duty_")[0]
    kernels = kernels_of(base)
    per_s = int(row["calls"]) / float(row["seconds"])
    share = float(row["sm_mhz_mean"]) / MAX_MHZ
    if name != base:
        full_per_s = int(full["calls"]) / float(full["seconds"])
        busy = busy_share(name, row)
        share = min(1.0, float(full["sm_mhz_mean"]) / MAX_MHZ * per_s / busy / full_per_s)
    matrix = [k for k in kernels if k.kind in MATRIX_KINDS and k.flops]
    other = [k for k in kernels if k.kind not in MATRIX_KINDS]
    moved = sum(k.read_bytes + k.written_bytes for k in kernels)
    inside = sum(max(0.0, k.least_bytes - k.read_bytes - k.written_bytes) for k in other)
    if name in IN_L2:
        moved, inside = 0.0, moved + inside
    return Load(
        name=name, above_w=float(row["mean_w"]) - idle_w, share=share,
        rate=rate_name(matrix[0].dtype) if matrix else "", kind=matrix[0].kind if matrix else "",
        flops=per_s * sum(k.flops for k in matrix), issue=per_s * sum(k.compute_s for k in other),
        nbytes=per_s * moved, l2_bytes=per_s * inside,
    )  # fmt: skip


def fit_memory(loads: list[Load], pj_per_flop: float) -> tuple[float, float, float]:
    """Vector watts, pJ a byte, pJ an L2 byte: least squares of relative errors of total power."""
    used = [x for x in loads if not x.rate or x.name == "matmul_thin_bf16"]
    factors = np.array([[x.issue, x.nbytes * 1e-12, x.l2_bytes * 1e-12] for x in used])
    target = np.array([x.above_w - x.flops * pj_per_flop * 1e-12 for x in used])
    weight = 1.0 / np.array([x.above_w + REST_W for x in used])
    found, *_ = np.linalg.lstsq(factors * weight[:, None], target * weight, rcond=None)
    assert (found > 0).all(), found
    return tuple(float(x) for x in found)  # type: ignore[return-value]


def per_flop_pj(x: Load, pj_per_byte: float) -> float:
    """What is left for a FLOP."""
    return (x.above_w - x.nbytes * pj_per_byte * 1e-12) / x.flops * 1e12


def own_clock(rate: str, x: Load) -> float:
    """Clock of a lone product over the boost clock: its rate at rest against the steady one."""
    name = {"fp8": "scaled_mm"}.get(rate, "mm")
    with gzip.open(MICRO / "matmul.csv.gz", "rt", newline="") as stream:
        for row in csv.DictReader(stream):
            p = json.loads(row["params"])
            if (
                row["bench"] == name and p["dtype"] == rate and row["state"] == "hot"
                and p["m"] == p["n"] == p["k"] == 8192 and row["category"] == "kernel"
            ):  # fmt: skip
                return min(1.0, x.share * 2 * 8192**3 / (float(row["median_us"]) * 1e-6) / x.flops)
    raise SystemExit(f"no lone {rate} product of 8192 in the recording")


def fit(loads: list[Load]) -> tuple[dict[str, float], dict[str, float]]:
    """Constants in W and pJ, and the clock of each dtype's lone product."""
    by = {x.name: x for x in loads}
    dense = {"bf16": "matmul_bf16", "fp16": "matmul_fp16", "tf32": "matmul_tf32",
             "fp8": "matmul_fp8", "fp32": "matmul_fp32"}  # fmt: skip
    clocks = {rate: own_clock(rate, by[name]) for rate, name in dense.items()}
    found: dict[str, float] = {"bf16": 0.9}
    for _ in range(5):
        found["vector"], found["byte"], found["l2_byte"] = fit_memory(loads, found["bf16"])
        same = [x for x in loads if x.name.split("_duty_")[0] == dense["bf16"]]
        logs = [(math.log(x.share), math.log(per_flop_pj(x, found["byte"]))) for x in same]
        found["exponent"] = float(np.polyfit(*zip(*logs, strict=True), 1)[0])
        own: dict[tuple[str, str], list[float]] = defaultdict(list)
        for x in loads:
            if x.rate and x.name != "matmul_thin_bf16" and "_duty_" not in x.name:
                alone = 1.0 if x.kind == "attention" else clocks[x.rate]
                slowed = (min(x.share, alone) / alone) ** found["exponent"]
                own[x.rate, x.kind].append(per_flop_pj(x, found["byte"]) / slowed)
        found |= {rate: geometric_mean(own[rate, "matmul"]) for rate in dense}
        for kind in ("attention", "convolution"):
            found[kind] = geometric_mean(own["bf16", kind]) / found["bf16"]
    return found, clocks


def predicted_w(x: Load, found: dict[str, float], clocks: dict[str, float]) -> float:
    """Power above rest by the fitted constants."""
    total = x.issue * found["vector"]
    total += (x.nbytes * found["byte"] + x.l2_bytes * found["l2_byte"]) * 1e-12
    if x.rate:
        alone = 1.0 if x.kind == "attention" else clocks[x.rate]
        slowed = (min(x.share, alone) / alone) ** found["exponent"]
        total += x.flops * found[x.rate] * found.get(x.kind, 1.0) * slowed * 1e-12
    return total


def entries(
    found: dict[str, float], clocks: dict[str, float], idle_w: float, held: float
) -> dict[str, CalibratedValue]:
    """The constants as shares (see `gpuscope.cost.power`)."""
    board_w = DEVICE.require("tdp_w")
    values = {
        "idle_share": idle_w / board_w, "vector_share": found["vector"] / board_w,
        "byte_factor": found["byte"] / MEMORY_PJ_PER_BYTE,
        "l2_byte_factor": found["l2_byte"] / MEMORY_PJ_PER_BYTE,
        "voltage_exponent": found["exponent"], "limit_share": held / board_w,
    }  # fmt: skip
    values |= {f"flop_factor.{kind}": found[kind] for kind in ("attention", "convolution")}
    for rate, clock in clocks.items():
        peak = DEVICE.peak_flops_per_s(rate, tensor_core=rate != "fp32")
        values[f"flop_share.{rate}"] = found[rate] * 1e-12 * peak / board_w
        values[f"clock_share.{rate}"] = clock
    return {
        f"power.{name}": CalibratedValue(value, "1", "calibrated", value, value)
        for name, value in values.items()
    }


def check() -> None:
    """Print power (at the measured step), energy and step of the whole workloads.

    For judging only: no constant is fitted to them. Takes some minutes.
    """
    constants, say = calibration_for(DEVICE), sys.stdout.write
    model = power_model(DEVICE, constants)
    assert model is not None
    errors, limited_errors = [], []
    for path in sorted((MICRO.parent / "zoo").glob("*.json")):
        recording = json.loads(path.read_text())
        if not recording.get("energy_j"):
            continue
        target = recording["target"]
        if ".py:" in target:
            target = str(MICRO.parents[2] / "workloads" / target)
        try:
            program = record(target, options=WorkloadOptions(**recording["options"]))
            costed = cost_program(with_workspaces(program, DEVICE), DEVICE, constants)
        except GpuscopeError as error:
            say(f"{path.stem}: left out: {error}\n")
            continue
        limited = limit_power(costed, DEVICE, constants)
        steps = [simulate(costed).step_time_s, simulate(limited).step_time_s]
        above_j = sum(
            sum(model.work_j(k)) * item.op.repeat
            for item in costed.ops for k in item.kernels if k.lane == "compute"
        )  # fmt: skip

        def energy_j(step_s: float, above_j: float = above_j) -> float:
            return min(model.idle_w * step_s + above_j, model.limit_w * step_s)

        measured_s, measured_j = recording["step_time_s"], recording["energy_j"]
        found = (
            energy_j(measured_s) / measured_j - 1, energy_j(steps[1]) / measured_j - 1,
            steps[0] / measured_s - 1, steps[1] / measured_s - 1,
        )  # fmt: skip
        errors.append(found)
        if limited is not costed:
            limited_errors.append(found[2:])
        say(f"{path.stem:22s} power {found[0]:+6.1%}  energy {found[1]:+6.1%}"
            f"  step {found[2]:+6.1%}, limited {found[3]:+6.1%}\n")  # fmt: skip
    size = np.abs(errors)
    say(f"mean errors {size.mean(0).round(3)}, medians {np.median(size, 0).round(3)}, "
        f"bias {np.mean(errors, 0).round(3)}\n")  # fmt: skip
    if limited_errors:
        say(f"step of {len(limited_errors)} limited ones: without, with the limit "
            f"{np.abs(limited_errors).mean(0).round(3)}\n")  # fmt: skip


def main() -> None:
    """Fit, report, write."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--write", type=Path)
    arguments.add_argument("--check", action="store_true")
    given = arguments.parse_args()
    if given.check:
        check()
        return
    recorded = rows()
    idle_w = sum(float(r["mean_w"]) for n, r in recorded.items() if n.startswith("idle")) / 2
    loads = [
        load(name, row, idle_w, recorded[name.split("_duty_")[0]])
        for name, row in recorded.items()
        if not name.startswith("idle") and name not in CONSTANT_DATA
    ]
    held = [
        float(r["mean_w"]) for n, r in recorded.items()
        if "_duty_" not in n and float(r["sm_mhz_mean"]) < 0.9 * MAX_MHZ
        and float(r["mean_w"]) > 600
    ]  # fmt: skip
    held_w = sum(held) / len(held)
    found, clocks = fit(loads)
    say = sys.stdout.write
    say(f"rest {idle_w:.1f} W, held under the limit {held_w:.1f} W ({min(held)}-{max(held)})\n")
    for name, value in found.items():
        say(f"{name:10s} {value:8.4g}\n")
    say(f"clock of lone products over the boost clock: {clocks}\n")
    errors = []
    for x in loads:
        predicted = predicted_w(x, found, clocks) + idle_w
        errors.append(predicted / (x.above_w + idle_w) - 1)
        say(f"{x.name:24s} {x.above_w + idle_w:6.1f} W, {predicted:6.1f} W {errors[-1]:+7.1%}"
            f"  clock {x.share:.3f}\n")  # fmt: skip
    say(f"mean error {np.mean(np.abs(errors)):.1%}\n")
    if given.write:
        write_toml(given.write, MEASURED_WITH, entries(found, clocks, idle_w, held_w))


if __name__ == "__main__":
    main()
