"""Fit FlashAttention-2's rate on devices that use it to published attention times.

    python benchmarks/fit/published_attention.py TABLES/aiconfigurator_core/systems [--write]

The tables (see `published.py`) hold prefill attention of vLLM with FlashAttention-2, PyTorch's own
kernel on these devices. Writing the key-value cache is in their times, so only calls of more than a
millisecond are used, where arithmetic is all but everything. Fitted: the share of the peak rate by
head size; half of the points judge.
"""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path

import pyarrow.parquet as parquet
from published import arguments, source
from recorded import fit, loss, spread, summary, trial, write_toml

from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.cost.types import Kernel
from gpuscope.hardware import Device, device
from gpuscope.hardware.calibration import CALIBRATIONS, CalibratedValue
from gpuscope.measurement.calibrate.product_operators import dense
from gpuscope.program.types import Op

DEVICES = {
    "a100_sxm": "nvidia-a100-sxm-80gb",
    "l40s": "nvidia-l40s",
    "rtx_pro_6000_server": "nvidia-rtx-pro-6000-blackwell",
}
WIDTHS = {64: "d64", 128: "d128", 256: "d256"}
TILE_S, START_S = 2.0e-6, 3.0e-6
"""Start of a tile and of the kernel, as the model has them for devices nobody measured."""

Point = tuple[Op, float]


def read(systems: Path, name: str, width: int) -> list[Point]:
    """Long causal prefills of one head size, with their times."""
    files = sorted((systems / "data" / name / "attention" / "vllm").glob("*/context_*.parquet"))
    rows = parquet.read_table(files[-1], filters=[("attn_dtype", "=", "bfloat16")]).to_pylist()
    points = []
    for r in rows:
        if r["head_dim"] != width or r["step"] or r["latency"] < 1.0 or (r.get("window_size") or 0):
            continue
        if "flash_attn" not in r["kernel_source"]:
            continue
        q = dense(r["batch_size"], r["num_heads"], r["isl"], width, dtype="bfloat16")
        heads = r["num_key_value_heads"] or r["num_heads"]
        k = dense(r["batch_size"], heads, r["isl"], width, dtype="bfloat16")
        args = {"causal": True, "backend": "flash"}
        op = Op(0, "gpuscope::attention", inputs=(q, k, k), outputs=(q,), args=args)
        points.append((op, r["latency"] * 1e-3))
    return random.Random(0).sample(points, min(600, len(points)))


def errors(points: list[Point], target: Device, constants: Constants) -> list[float]:
    """ln(predicted / measured)."""
    return [
        math.log(sum(k.duration_s for k in kernels(op, target, constants)) / seconds)
        for op, seconds in points
    ]


def kernels(op: Op, target: Device, constants: Constants) -> tuple[Kernel, ...]:
    """What the model says the call launches."""
    model = model_for("gpuscope::attention")
    assert model is not None
    return model(Work(op, target, constants, (), (False,) * 3))


def main() -> int:
    """Fit, print, and with --write store the constants."""
    args = arguments(__doc__)
    for name, device_id in DEVICES.items():
        target = device(device_id)
        entries: dict[str, CalibratedValue] = {}
        for width, key in WIDTHS.items():
            points = read(args.systems, name, width)
            if len(points) < 100:
                continue
            base = f"attention.flash.forward.{key}"
            fixed = {f"{base}.tile_s": TILE_S, f"{base}.start_s": START_S}
            train, held = points[::2], points[1::2]
            found = fit(
                {f"{base}.efficiency": 0.62},
                lambda v, train=train, fixed=fixed, target=target: loss(
                    errors(train, target, trial(target, {**v, **fixed}))
                ),
                [f"{base}.efficiency"],
                8,
            )
            judged = errors(held, target, trial(target, {**found, **fixed}))
            value = found[f"{base}.efficiency"]
            sys.stdout.write(f"{device_id} {key} {value:.3f} {summary(judged)}\n")
            half = spread(judged)
            for constant, value in found.items():
                entries[constant] = CalibratedValue(
                    value,
                    "1",
                    "calibrated",
                    value * (1 - half),
                    value * (1 + half),
                    f"held-out half of {len(points)} prefills",
                )
            entries |= {n: CalibratedValue(v, "s", "calibrated", v, v) for n, v in fixed.items()}
        if args.write and entries:
            file = CALIBRATIONS / device_id / "attention.toml"
            write_toml(file, source("vLLM prefill"), entries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
