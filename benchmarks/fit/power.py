"""Fit the power model to steady loads of one operator each; print residuals, write the TOML.

    python benchmarks/fit/power.py [--write FILE.toml]
    python benchmarks/fit/power.py --check      the catalogue's constants against whole workloads

The loads of `gpuscope bench --only power` and of `benchmarks/power_terms.py` are captured and
costed, so that FLOPs, bytes and issue times are those that predictions use; power, clock and rate
are the recorded ones, and each recording has its own machine's power at rest. Left out: loads whose
data is constant (zeros, signs, a fill), which switch fewer bits than real data.
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

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import power_terms
from recorded import MAX_MHZ, MEASURED_WITH, MICRO, write_toml

from gpuscope.api import capture as record
from gpuscope.cost.engine import cost_program
from gpuscope.cost.power import PJ_PER_BIT, limit_power, on_matrix_units, power_model, rate_of
from gpuscope.cost.types import Kernel
from gpuscope.cost.workspace import with_workspaces
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import calibration_for, device
from gpuscope.hardware.calibration import CalibratedValue
from gpuscope.measurement.bench.power_loads import LOADS
from gpuscope.measurement.bench.power_loads import Load as BenchLoad
from gpuscope.program.capture import capture
from gpuscope.program.workload import WorkloadOptions
from gpuscope.timeline import simulate

DEVICE = device("h200")
_FOUND = power_model(DEVICE, calibration_for(DEVICE))
assert _FOUND is not None
MODEL = _FOUND
"""For the time that a kernel's blocks run, which no fitted constant enters."""
MEMORY_PJ_PER_BYTE = 8 * dict(PJ_PER_BIT)["HBM"]
CONSTANT_DATA = ("matmul_bf16_zeros", "matmul_bf16_signs", "write_hbm")
IN_L2 = ("copy_l2_16mib", "gelu_l2", "tiny_kernels", "matmul_bf16_2048")
"""Loads whose buffers never leave the L2."""
PACED = ("copy_l2_16mib", "gelu_l2", "tiny_kernels", "lstm_16_bf16", "gru_backward_64_bf16")
"""Loads whose kernels are shorter than the host takes to launch them; all others are busy."""
NO_KERNEL = ("one_block",)
SLEEP_PERIOD_S = 0.1
"""A load with a duty below 1 sleeps for the rest of every such period."""
Column = dict[str, float]


@dataclass(frozen=True)
class Load:
    """A steady load.

    Attributes:
        name: of the load.
        total_w, rest_w: mean power, and that of the same machine at rest.
        share: clock over the boost clock while it runs.
        work: by term, per second of the recording: "active" (time x share of multiprocessors),
            "vector" (time spent issuing), "byte", "l2_byte", "flop.<rate>.<kind>"; those but bytes
            of memory already at the clock that the load ran at.
    """

    name: str
    total_w: float
    rest_w: float
    share: float
    work: Column


def read(name: str) -> dict[str, dict[str, str]]:
    """A recording by name of the load."""
    with gzip.open(MICRO / name, "rt", newline="") as stream:
        return {row["load"]: row for row in csv.DictReader(stream)}


def at_rest(rows: dict[str, dict[str, str]]) -> float:
    """Mean power with a context open and the clock up."""
    idle = [
        float(r["mean_w"])
        for n, r in rows.items()
        if n.startswith("idle") and float(r["sm_mhz_mean"]) > 0.9 * MAX_MHZ
    ]
    return sum(idle) / len(idle)


def kernels_of(make: Callable[[str], Callable[[], object]]) -> list[Kernel]:
    """What one call of a load launches, its buffers as warm as they are in a loop."""

    def build() -> Callable[[], object]:
        call = make("cuda")

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
    sleeps = round(seconds / SLEEP_PERIOD_S - 0.3)
    return 1.0 - sleeps * (1.0 - float(name.rsplit("_", 1)[1])) * SLEEP_PERIOD_S / seconds


def load(
    name: str,
    row: dict[str, str],
    rest_w: float,
    full: dict[str, str],
    kernels: list[Kernel],
    clocks: Column,
    exponent: float,
) -> Load:
    """A recorded load with its work; a duty load's clock is told by its rate.

    Kernels of a load that is always busy are stretched to fill the time.
    """
    per_s = float(row["calls"]) / float(row["seconds"])
    share, busy = float(row["sm_mhz_mean"]) / MAX_MHZ, busy_share(name, row)
    if busy < 1.0:
        full_per_s = float(full["calls"]) / float(full["seconds"])
        share = min(1.0, float(full["sm_mhz_mean"]) / MAX_MHZ * per_s / busy / full_per_s)
    seconds = per_s * sum(k.duration_s for k in kernels)
    paced = name in PACED or float(row.get("pace_us") or 0.0) > 0
    stretch = 1.0 if paced else 0.98 * busy / seconds
    work: Column = defaultdict(float)
    for k in kernels:
        rate, matrix = rate_of(k.dtype), on_matrix_units(k) and k.flops > 0
        own = clocks.get(rate, 1.0) if k.kind in ("matmul", "convolution") and matrix else 1.0
        slowed = per_s * (min(share, own) / own) ** exponent
        moved = k.read_bytes + k.written_bytes
        inside = 0.0 if matrix else max(0.0, k.least_bytes - moved)
        if name in IN_L2:
            moved, inside = 0.0, 0.0 if matrix else moved + inside
        work["active"] += stretch * slowed * MODEL.active_s(k)
        work["byte"] += per_s * moved * 1e-12
        if matrix:
            work[f"flop.{rate}.{k.kind}"] += slowed * k.flops * 1e-12
        else:
            work["vector"] += slowed * min(k.compute_s, k.duration_s)
            work["l2_byte"] += slowed * inside * 1e-12
    return Load(name, float(row["mean_w"]), rest_w, share, dict(work))


def least_squares(loads: list[Load]) -> Column:
    """W, pJ per byte and pJ per FLOP, none negative: relative errors of total power."""
    names = sorted({term for x in loads for term in x.work})
    factors = np.array([[x.work.get(n, 0.0) / x.total_w for n in names] for x in loads])
    target = np.array([(x.total_w - x.rest_w) / x.total_w for x in loads])
    free = list(range(len(names)))
    while True:
        found = np.linalg.lstsq(factors[:, free], target, rcond=None)[0]
        if (found >= 0).all():
            return {names[i]: float(v) for i, v in zip(free, found, strict=True)}
        free = [i for i, v in zip(free, found, strict=True) if v > 0]


def predicted_w(x: Load, found: Column) -> float:
    """Power by the fitted constants."""
    return x.rest_w + sum(amount * found.get(term, 0.0) for term, amount in x.work.items())


def own_clock(rate: str, share: float, flops_per_s: float) -> float:
    """Clock of a lone product over the boost clock: its rate at rest against the steady one."""
    name = {"fp8": "scaled_mm"}.get(rate, "mm")
    with gzip.open(MICRO / "matmul.csv.gz", "rt", newline="") as stream:
        for row in csv.DictReader(stream):
            p = json.loads(row["params"])
            if (
                row["bench"] == name
                and p["dtype"] == rate
                and row["state"] == "hot"
                and p["m"] == p["n"] == p["k"] == 8192
                and row["category"] == "kernel"
            ):
                alone = 2 * 8192**3 / (float(row["median_us"]) * 1e-6)
                return min(1.0, share * alone / flops_per_s)
    raise SystemExit(f"no lone {rate} product of 8192 in the recording")


def exponent_of(loads: list[Load], found: Column, clocks: Column, exponent: float) -> float:
    """k from one product at several clocks: what is left for a FLOP against the clock."""
    logs = []
    for x in loads:
        if x.name.split("_duty_")[0] != "matmul_bf16":
            continue
        term = "flop.bf16.matmul"
        rest = predicted_w(x, found) - x.work[term] * found[term]
        own = (min(x.share, clocks["bf16"]) / clocks["bf16"]) ** exponent
        logs.append((math.log(x.share), math.log((x.total_w - rest) * own / x.work[term])))
    return float(np.polyfit(*zip(*logs, strict=True), 1)[0])


def entries(
    found: Column, clocks: Column, exponent: float, idle_w: float, held_w: float
) -> dict[str, CalibratedValue]:
    """The constants as shares (see `gpuscope.cost.power`)."""
    board_w = DEVICE.require("tdp_w")
    values = {
        "idle_share": idle_w / board_w,
        "active_share": found["active"] / board_w,
        "vector_share": found["vector"] / board_w,
        "byte_factor": found["byte"] / MEMORY_PJ_PER_BYTE,
        "l2_byte_factor": found["l2_byte"] / MEMORY_PJ_PER_BYTE,
        "voltage_exponent": exponent,
        "limit_share": held_w / board_w,
    }
    plain = found["flop.bf16.matmul"]
    for kind in ("attention", "convolution", "recurrent"):
        values[f"flop_factor.{kind}"] = found[f"flop.bf16.{kind}"] / plain
    for rate, clock in clocks.items():
        peak = DEVICE.peak_flops_per_s(rate, tensor_core=rate != "fp32")
        per_flop = found[f"flop.{rate}.matmul"] * 1e-12
        values[f"flop_share.{rate}"] = per_flop * peak / board_w
        values[f"clock_share.{rate}"] = clock
    return {
        f"power.{name}": CalibratedValue(value, "1", "calibrated", value, value)
        for name, value in values.items()
    }


def fitted() -> tuple[Column, Column, float, float, float, list[Load]]:
    """Constants, clocks of lone products, exponent, power at rest and at the limit, the loads."""
    steady, terms = read("power.csv.gz"), read("power_terms.csv.gz")
    jobs = []
    for rows in (steady, terms):
        for name, row in rows.items():
            if name.startswith("idle") or name in (*CONSTANT_DATA, *NO_KERNEL):
                continue
            base = name.split("_duty_")[0]
            made = power_terms.LOADS[name].make if rows is terms else _made(LOADS[base])
            jobs.append((name, row, at_rest(rows), rows[base], kernels_of(made)))
    clocks: Column = {}
    for rate in ("bf16", "fp16", "tf32", "fp8", "fp32"):
        row = steady[f"matmul_{rate}"]
        per_s = 2 * 8192**3 * int(row["calls"]) / float(row["seconds"])
        clocks[rate] = own_clock(rate, float(row["sm_mhz_mean"]) / MAX_MHZ, per_s)
    exponent, found, loads = 1.0, {}, []
    for _ in range(6):
        loads = [load(*job, clocks, exponent) for job in jobs]
        found = least_squares(loads)
        exponent = exponent_of(loads, found, clocks, exponent)
    held = [
        x.total_w for x in loads if "_duty_" not in x.name and x.share < 0.9 and x.total_w > 600
    ]
    machines = [at_rest(r) for r in (steady, terms, read("back_to_back/power.csv.gz"))]
    return found, clocks, exponent, sum(machines) / 3, sum(held) / len(held), loads


def _made(make: Callable[[str], BenchLoad]) -> Callable[[str], Callable[[], object]]:
    return lambda device: make(device).call


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
            for item in costed.ops
            for k in item.kernels
            if k.lane == "compute"
        )

        def energy_j(step_s: float, above_j: float = above_j) -> float:
            return min(model.idle_w * step_s + above_j, model.limit_w * step_s)

        measured_s, measured_j = recording["step_time_s"], recording["energy_j"]
        found = (
            energy_j(measured_s) / measured_j - 1,
            energy_j(steps[1]) / measured_j - 1,
            steps[0] / measured_s - 1,
            steps[1] / measured_s - 1,
        )
        errors.append(found)
        if limited is not costed:
            limited_errors.append(found[2:])
        say(
            f"{path.stem:22s} power {found[0]:+6.1%}  energy {found[1]:+6.1%}"
            f"  step {found[2]:+6.1%}, limited {found[3]:+6.1%}\n"
        )
    size = np.abs(errors)
    say(
        f"mean errors {size.mean(0).round(3)}, medians {np.median(size, 0).round(3)}, "
        f"bias {np.mean(errors, 0).round(3)}\n"
    )
    if limited_errors:
        say(
            f"step of {len(limited_errors)} limited ones: without, with the limit "
            f"{np.abs(limited_errors).mean(0).round(3)}\n"
        )


def main() -> None:
    """Fit, report, write."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--write", type=Path)
    arguments.add_argument("--check", action="store_true")
    given = arguments.parse_args()
    if given.check:
        check()
        return
    found, clocks, exponent, idle_w, held_w, loads = fitted()
    say = sys.stdout.write
    say(f"rest {idle_w:.1f} W, held under the limit {held_w:.1f} W, exponent {exponent:.3f}\n")
    for name, value in found.items():
        say(f"{name:24s} {value:8.4g}\n")
    say(f"clock of lone products over the boost clock: {clocks}\n")
    errors = []
    for x in sorted(loads, key=lambda x: predicted_w(x, found) / x.total_w):
        errors.append(predicted_w(x, found) / x.total_w - 1)
        say(
            f"{x.name:32s} {x.total_w:6.1f} W, {predicted_w(x, found):6.1f} W {errors[-1]:+7.1%}"
            f"  clock {x.share:.3f}\n"
        )
    say(f"mean error {np.mean(np.abs(errors)):.1%}, median {np.median(np.abs(errors)):.1%}\n")
    if given.write:
        write_toml(given.write, MEASURED_WITH, entries(found, clocks, exponent, idle_w, held_w))


if __name__ == "__main__":
    main()
