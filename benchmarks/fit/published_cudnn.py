"""Fit cuDNN's attention on Blackwell to the times that NVIDIA publishes of it.

    git clone https://github.com/NVIDIA/cudnn-frontend TABLES
    python benchmarks/fit/published_cudnn.py TABLES/benchmark/sdpa_benchmark_training/results [--write]

`benchmark/sdpa_benchmark_training` (MIT) times cuDNN alone, forward and backward, at the shapes of
Llama 3.1 (heads of 128) and DeepSeek-V3 (192, values of 128), on GB200 and GB300. Only the fitted
constants are kept here. Fitted is the share of the peak rate by width and direction, with the
H200's times of a tile and of a start; half of the points judge. Sequences of 2,048 to 16,384
tokens: longer loops run into the boards' power limits. B200 and B300 have the same dies, and get
the same shares. Its GPT-OSS (64, a window of 128) is left out: windows say little of whole rows.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections import defaultdict
from pathlib import Path

from recorded import fit, loss, spread, summary, trial, write_toml

from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.hardware import Device, calibration_for, device
from gpuscope.hardware.calibration import CALIBRATIONS, CalibratedValue
from gpuscope.measurement.calibrate.product_operators import dense
from gpuscope.program.types import Op

DEVICES = {"gb200": ("nvidia-gb200", "nvidia-b200"), "gb300": ("nvidia-gb300", "nvidia-b300")}
SOURCE = "published times of cuDNN 9.22 (NVIDIA, cudnn-frontend, MIT)"
MODELS = ("llama3.1", "dsv3")
TOKENS = range(2048, 16384 + 1)


Key = tuple[str, int]
Point = tuple[Op, float]


def read(results: Path, name: str) -> dict[Key, list[Point]]:
    """Calls of a device by direction and width, with their seconds."""
    found: dict[Key, list[Point]] = defaultdict(list)
    for model in MODELS:
        file = max((results / model / name).glob("*.csv"))
        for row in csv.DictReader(file.open()):
            told = row["success"] == "True" and row["backend"] == "cudnn"
            plain = row["data_type"] == "bfloat16" and row["deterministic_bwd"] == "False"
            if told and plain and int(row["q_seqlen"]) in TOKENS:
                width = int(row["head_dim_qk"])
                direction = "forward" if row["profile_pass"] == "fwd" else "backward"
                seconds = float(row["time_ms"]) * 1e-3
                found[direction, width].append((_call(row, direction), seconds))
    return found


def _call(row: dict[str, str], direction: str) -> Op:
    batch, tokens = int(row["batch_size"]), int(row["q_seqlen"])
    heads, few = int(row["num_q_heads"]), int(row["num_kv_heads"])
    wide, value = int(row["head_dim_qk"]), int(row["head_dim_vo"])
    q = dense(batch, heads, tokens, wide, dtype="bfloat16")
    k = dense(batch, few, tokens, wide, dtype="bfloat16")
    v = dense(batch, few, tokens, value, dtype="bfloat16")
    out = dense(batch, heads, tokens, value, dtype="bfloat16")
    args: dict[str, object] = {"causal": row["attn_mask"] == "top_left", "backend": "cudnn"}
    if direction == "forward":
        return Op(0, "gpuscope::attention", inputs=(q, k, v), outputs=(out,), args=args)
    name = "gpuscope::attention_backward"
    return Op(0, name, inputs=(out, q, k, v, out), outputs=(q, k, v), args=args)


def errors(points: list[Point], target: Device, constants: Constants) -> list[float]:
    """ln(predicted / measured)."""
    return [math.log(_seconds(op, target, constants) / measured) for op, measured in points]


def _seconds(op: Op, target: Device, constants: Constants) -> float:
    model = model_for(op.name)
    assert model is not None
    made = model(Work(op, target, constants, (), (False,) * len(op.inputs)))
    return sum(kernel.duration_s for kernel in made)


def fitted(results: Path, name: str, target: Device) -> dict[str, CalibratedValue]:
    """Shares of the peak by direction and width, with what half of the calls were off by."""
    home = calibration_for(device("h200"))
    times = {n: e.value for n, e in home.entries if n.startswith("attention.")}
    entries: dict[str, CalibratedValue] = {}
    for (direction, width), points in sorted(read(results, name).items()):
        constant = f"attention.cudnn.{direction}.d{width}.efficiency"
        fixed = {n: v for n, v in times.items() if n != constant}
        train, held = points[::2], points[1::2]
        carried = errors(held, target, trial(target, times))
        found = fit(
            {constant: times[constant]},
            lambda v, train=train, fixed=fixed: loss(
                errors(train, target, trial(target, {**fixed, **v}))
            ),
            [constant],
            8,
        )
        value = found[constant]
        judged = errors(held, target, trial(target, {**fixed, constant: value}))
        sys.stdout.write(f"{name} {direction} d{width} {value:.3f} {summary(judged)}\n")
        sys.stdout.write(f"    carried from the H200: {summary(carried)}\n")
        half = spread(judged)
        note = f"held-out half of {len(points)} calls"
        entries[constant] = CalibratedValue(
            value, "1", "calibrated", value * (1 - half), value * (1 + half), note
        )
    return entries


def main() -> int:
    """Fit, print, and with --write store the constants."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("results", type=Path, help="the benchmark's folder 'results'")
    parser.add_argument("--write", action="store_true", help="store constants in the catalogue")
    args = parser.parse_args()
    for name, devices in DEVICES.items():
        entries = fitted(args.results, name, device(devices[0]))
        for device_id in devices if args.write else ():
            write_toml(CALIBRATIONS / device_id / "attention.toml", SOURCE, entries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
