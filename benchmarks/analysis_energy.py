"""Fit the constants of `gpuscope.analysis.energy` to whole workloads measured on an H200.

    energy = idle_w x step + active_w x device time + sum (pJ/FLOP x FLOPs) + pJ/byte x bytes

Energy, step and device time are measured (`validation/recordings/h200/zoo`), FLOPs and bytes come
from capturing and costing the same workloads. Least squares on relative errors, constants never
negative. Takes some minutes.

Run: python benchmarks/analysis_energy.py
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuscope.analysis.roofs import MATRIX_KINDS
from gpuscope.api import capture
from gpuscope.cost.engine import cost_program
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import device
from gpuscope.program.workload import WorkloadOptions

ROOT = Path(__file__).parents[1] / "validation"
UNKNOWNS = (
    "idle_w", "active_w", "pj_per_flop.bfloat16", "pj_per_flop.tf32", "pj_per_flop.float32",
    "pj_per_byte",
)  # fmt: skip
COLUMN = {"bfloat16": 2, "float16": 2, "tf32": 3, "float32": 4}


@dataclass(frozen=True)
class Measured:
    """One workload: name, joules, and what each unknown is multiplied with."""

    name: str
    energy_j: float
    factors: tuple[float, ...]


def workload(recording: dict[str, object]) -> Measured:
    target, options = str(recording["target"]), recording["options"]
    if ".py:" in target:
        target = str(ROOT / "workloads" / target)
    assert isinstance(options, dict)
    program = capture(target, options=WorkloadOptions(**options))
    costed = cost_program(program, device("h200"))
    factors = [
        float(recording["step_time_s"]),
        float(recording["kernel_sum_s"]),
        0.0,
        0.0,
        0.0,
        0.0,
    ]  # type: ignore[arg-type]
    for item in costed.ops:
        for kernel in item.kernels:
            if kernel.kind in MATRIX_KINDS and kernel.dtype in COLUMN:
                factors[COLUMN[kernel.dtype]] += kernel.flops * item.op.repeat * 1e-12
            if kernel.lane == "compute":
                moved = kernel.read_bytes + kernel.written_bytes
                factors[5] += moved * item.op.repeat * 1e-12
    return Measured(str(recording["name"]), float(recording["energy_j"]), tuple(factors))  # type: ignore[arg-type]


def fit(rows: list[Measured]) -> np.ndarray:
    """Least squares on relative errors; a constant that would be negative is left out."""
    factors = np.array([row.factors for row in rows])
    energy = np.array([row.energy_j for row in rows])
    scaled, ones = factors / energy[:, None], np.ones(len(rows))
    used = list(range(len(UNKNOWNS)))
    while True:
        solution, *_ = np.linalg.lstsq(scaled[:, used], ones, rcond=None)
        if (solution >= 0).all():
            break
        used.pop(int(solution.argmin()))
    constants = np.zeros(len(UNKNOWNS))
    constants[used] = solution
    return constants


def main() -> None:
    rows = []
    for path in sorted((ROOT / "recordings" / "h200" / "zoo").glob("*.json")):
        recording = json.loads(path.read_text())
        if not recording.get("energy_j"):
            continue
        try:
            rows.append(workload(recording))
        except GpuscopeError as error:
            print(f"{path.stem}: left out: {error}", file=sys.stderr)
    constants = fit(rows)
    errors = {row.name: float(np.dot(row.factors, constants)) / row.energy_j - 1 for row in rows}
    without = {
        row.name: float(np.dot(row.factors, fit([r for r in rows if r is not row]))) / row.energy_j
        - 1
        for row in rows
    }
    print(
        json.dumps(
            {
                "constants": dict(zip(UNKNOWNS, constants.round(3).tolist(), strict=True)),
                "workloads": len(rows),
                "mean_error": round(float(np.mean(np.abs(list(errors.values())))), 4),
                "mean_error_left_out": round(float(np.mean(np.abs(list(without.values())))), 4),
                "errors": {name: round(error, 3) for name, error in errors.items()},
                "errors_left_out": {name: round(error, 3) for name, error in without.items()},
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
