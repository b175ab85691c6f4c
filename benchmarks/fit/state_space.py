"""Fit what share of their best time mamba_ssm's kernels reach, from their recording on an H200.

    python benchmarks/fit/state_space.py [--write]

validation/recordings/h200/state_space.csv.gz has every kernel of mamba_ssm's chunked scan (commit
e9594ce, Triton autotuned) with its gated norm, forward and backward, 17 sizes, medians of five
runs. Fitted is one share a kernel, the geometric mean over sizes with states of 128 and chunks of
128; states of 256 and chunks of 256 judge. `--write` puts them in the H200's `state_space.toml`.
"""

from __future__ import annotations

import csv
import gzip
import math
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from recorded import summary, trial, write_toml

from gpuscope.cost.recurrent.state_space import state_space, state_space_backward
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.hardware import calibration_for, device
from gpuscope.hardware.calibration import CALIBRATIONS, CalibratedValue
from gpuscope.measurement.calibrate.product_operators import dense
from gpuscope.program.types import Op

RECORDING = Path(__file__).parents[2] / "validation/recordings/h200/state_space.csv.gz"
SIZES = {"a": (64, 128, 128), "b": (64, 256, 128), "c": (64, 128, 256)}
"""Head, state and chunk of the recording's kinds."""

FITTED = "a"
OTHERS = {"state_space.share": 1.0}
"""Convolution, sums and steps of PyTorch's own."""

NAMES = {
    "_chunk_cumsum_fwd": "chunk_cumsum_fwd",
    "_chunk_state_fwd": "chunk_state_fwd",
    "_state_passing_fwd": "state_passing_fwd",
    "_bmm_chunk_fwd": "bmm_chunk_fwd",
    "_chunk_scan_fwd": "chunk_scan_fwd",
    "_layer_norm_fwd": "gated_norm_fwd",
    "_layer_norm_bwd": "gated_norm_bwd",
    "_chunk_scan_bwd_dstates": "chunk_scan_bwd_dstates",
    "_state_passing_bwd": "state_passing_bwd",
    "_chunk_scan_chunk_state_bwd_dx": "chunk_scan_chunk_state_bwd_dx",
    "_chunk_state_bwd_db": "chunk_state_bwd_db",
    "_chunk_scan_bwd_dc_": "chunk_scan_bwd_dC",
    "_chunk_scan_bwd_dcb": "chunk_scan_bwd_dcb",
    "_chunk_scan_bwd_ddAcs": "chunk_scan_bwd_ddAcs",
    "_chunk_cumsum_bwd": "chunk_cumsum_bwd",
}
"""How kernels begin, and what the model calls them; the two of `bmm_chunk_bwd` come in order."""


def measured() -> Iterator[tuple[str, str, dict[str, float]]]:
    """Case and pass with the microseconds of its kernels by the model's names."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    with gzip.open(RECORDING, "rt") as file:
        for row in csv.DictReader(file):
            times = found[row["case"], row["pass"]]
            if row["kernel"].startswith("_bmm_chunk_bwd"):
                first = "bmm_chunk_bwd_db" not in times
                times["bmm_chunk_bwd_db" if first else "bmm_chunk_bwd_dc"] = float(row["us"])
            for begins, name in NAMES.items():
                if row["kernel"].startswith(begins):
                    times[name] = float(row["us"])
    for (case, direction), times in found.items():
        yield case, direction, times


def predicted(case: str, direction: str, shares: dict[str, float]) -> dict[str, float]:
    """Microseconds of the same kernels with these shares."""
    kind, *counts = case.split()
    (batch, tokens, heads, groups), (head, state, chunk) = map(int, counts), SIZES[kind]
    inner = heads * head
    channels = inner + 2 * groups * state
    projected = dense(batch, tokens, inner + channels + heads, dtype="bfloat16")
    taken = (
        projected,
        dense(channels, 4, dtype="bfloat16"),
        dense(channels, dtype="bfloat16"),
        dense(heads, dtype="bfloat16"),
        dense(heads, dtype="bfloat16"),
    )
    grad = dense(batch, tokens, inner, dtype="bfloat16")
    sizes = {"head": head, "state": state, "chunk": chunk}
    forward = direction == "forward"
    inputs = taken if forward else (grad, projected, grad, *taken[1:])
    name = "gpuscope_networks::state_space" + ("" if forward else "_backward")
    op = Op(0, name, inputs=inputs, outputs=(grad,), args=sizes)
    target = device("h200")
    known = {n: e.value for n, e in calibration_for(target).entries} | shares
    work = Work(op, target, trial(target, known), (), (False,) * len(inputs))
    made: tuple[Kernel, ...] = (state_space if forward else state_space_backward)(work)
    return {kernel.name: kernel.duration_s * 1e6 for kernel in reversed(made)}


def main() -> int:
    """Fit, judge, and with --write store the shares."""
    logs: dict[str, list[float]] = defaultdict(list)
    cases = list(measured())
    names = {name for _, _, times in cases for name in times}
    alone = {f"state_space.{name}.share": 1.0 for name in names} | OTHERS
    for case, direction, times in cases:
        if case.startswith(FITTED):
            best = predicted(case, direction, alone)
            for name, us in times.items():
                logs[name].append(math.log(best[name] / us))
    shares = {
        f"state_space.{name}.share": math.exp(sum(values) / len(values))
        for name, values in sorted(logs.items())
    }
    for seen in (True, False):
        errors = []
        for case, direction, times in cases:
            if case.startswith(FITTED) is seen:
                made = predicted(case, direction, shares | OTHERS)
                total = sum(made[name] for name in times)
                errors.append(math.log(total / sum(times.values())))
        sys.stdout.write(f"{'fitted' if seen else 'held out'}: {summary(errors)}\n")
    for name, share in shares.items():
        sys.stdout.write(f"{name} {share:.3f}\n")
    if "--write" in sys.argv[1:]:
        entries = {
            name: CalibratedValue(share, "1", "calibrated", share, share, "")
            for name, share in shares.items()
        }
        for name, share in OTHERS.items():
            entries[name] = CalibratedValue(share, "1", "estimated", share, share, "not recorded")
        source = "an H200, torch 2.11, mamba_ssm's Triton kernels (commit e9594ce)"
        write_toml(CALIBRATIONS / "nvidia-h200-sxm" / "state_space.toml", source, entries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
