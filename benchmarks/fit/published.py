"""Fit the matrix product model of other devices to published kernel tables.

    pip download --no-deps aiconfigurator-core && unzip aiconfigurator_core-*.whl -d TABLES
    python benchmarks/fit/published.py TABLES/aiconfigurator_core/systems [--write]

`aiconfigurator-core` (NVIDIA, Apache-2.0) carries measured times of vLLM's linear layers on many
devices, bfloat16 through `torch.nn.functional.linear`. Only the fitted constants are kept here, not
the tables. The times were read over many calls in a CUDA graph, so each holds the gap between two
kernels of a graph; it is found on the H200, whose kernels alone are known here, and taken off
everywhere. Their float8 times are left out: on the H200 they are twice those of the products alone,
since they quantise the activations too.

Half of the points drawn are fitted, the other half judges: once with the constants carried from
the H200 (what a device gets that nobody measured), once with the fitted ones.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import pyarrow.parquet as parquet
from matmul import UNIT
from recorded import Case, Recorded, fit, log_errors, loss, spread, summary, write_toml

from gpuscope.hardware import Device, device
from gpuscope.hardware.calibration import CALIBRATIONS, CalibratedValue, load_calibration
from gpuscope.measurement.calibrate.product_operators import dense, turned
from gpuscope.program.types import Op

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "published_matmul.json"
HOME = "h200_sxm"

DEVICES = {
    "a100_sxm": "nvidia-a100-sxm-80gb",
    "h100_sxm": "nvidia-h100-sxm",
    HOME: "nvidia-h200-sxm",
    "b200_sxm": "nvidia-b200",
    "b300_sxm": "nvidia-b300",
    "gb200": "nvidia-gb200",
    "gb300": "nvidia-gb300",
    "l40s": "nvidia-l40s",
    "rtx_pro_6000_server": "nvidia-rtx-pro-6000-blackwell",
}
"""Folder of the tables -> catalogue id, for devices with products measured by shape."""

RATES = {"bfloat16": ("bf16", "bfloat16")}
"""Name in the tables -> (rate, torch's dtype)."""

FITTED = (
    "efficiency",
    "bandwidth_efficiency",
    "l2_bytes_per_clock_per_unit",
    "floor_s",
    "tile_s",
    "store_bytes_per_clock_per_unit",
    "split_s",
    "throttle",
    "throttle_s",
)
"""`cold_s` is not among them: a call that is repeated finds small operands in the L2, and beside a
large one's transfer the latency of the first loads cannot be told from bandwidth. It is the
H200's."""

WIDEST = {"store_bytes_per_clock_per_unit": 128.0, "l2_bytes_per_clock_per_unit": 128.0}
"""What a multiprocessor's path to the caches carries: a line of 128 bytes a clock. Where neither
sets the pace, nothing else would keep the fit below."""

DRAWN = 1600
"""Points drawn of each table of about 35,000."""


@dataclass(frozen=True, slots=True)
class Table:
    """Points of one device and dtype.

    Attributes:
        version: framework and version, in words.
        train, held: the operators with their times, gap included.
    """

    version: str
    train: list[Case]
    held: list[Case]


def read_table(systems: Path, name: str, dtype: str, gap_s: float) -> Table | None:
    """Draw points of a device's table; None where it has none of this dtype."""
    files = sorted((systems / "data" / name / "gemm" / "vllm").glob("*/gemm_perf.parquet"))
    if not files:
        return None
    rows = parquet.read_table(files[-1], filters=[("gemm_dtype", "=", dtype)]).to_pylist()
    if not rows:
        return None
    # Among rows of one shape the least: some tables hold a shape several times.
    least: dict[tuple[int, int, int], float] = {}
    for row in rows:
        key = (row["m"], row["n"], row["k"])
        least[key] = min(least.get(key, math.inf), row["latency"] * 1e-3 - gap_s)
    drawn = random.Random(0).sample(sorted(least.items()), min(DRAWN, len(least)))
    cases = [_case(shape, seconds, RATES[dtype][1]) for shape, seconds in drawn if seconds > 5e-7]
    return Table(f"vLLM {files[-1].parent.name}", cases[::2], cases[1::2])


def _case(shape: tuple[int, int, int], seconds: float, dtype: str) -> Case:
    m, n, k = shape
    a, b = dense(m, k, dtype=dtype), turned(dense(n, k, dtype=dtype))
    out = dense(m, n, dtype="bfloat16")
    op = Op(0, "aten::mm", inputs=(a, b), outputs=(out,))
    return Case(Recorded(op.name, {"m": m, "n": n, "k": k}, "hot", (("", "", seconds),)), op, ())


def home_constants(rate: str) -> dict[str, float]:
    """The H200's own constants of one rate."""
    own = load_calibration(CALIBRATIONS / DEVICES[HOME])
    return {name: own.value(name) for name in own.names(f"matmul.{rate}")}


def graph_gap_s(systems: Path) -> float:
    """Time between kernels in the tables: what the H200's short products take beyond ours."""
    table = read_table(systems, HOME, "bfloat16", 0.0)
    assert table is not None
    short = [c for c in table.train if c.recorded.total_s < 1e-5]
    errors = log_errors(short, device(DEVICES[HOME]), home_constants("bf16"))
    return median(
        c.recorded.total_s * (1 - math.exp(e)) for c, e in zip(short, errors, strict=True)
    )


def fit_table(table: Table, rate: str, target: Device) -> dict[str, float]:
    """Constants of one device and rate, from the H200's on."""
    start = home_constants(rate)
    names = [f"matmul.{rate}.{name}" for name in FITTED]
    start[f"matmul.{rate}.throttle"] = max(start[f"matmul.{rate}.throttle"], 0.02)
    train = table.train

    def evaluate(trying: Mapping[str, float]) -> float:
        if any(trying[f"matmul.{rate}.{name}"] > most for name, most in WIDEST.items()):
            return math.inf
        return loss(log_errors(train, target, trying))

    return fit(start, evaluate, names, 5)


def figures(errors: list[float]) -> dict[str, float]:
    """Median, mean, 80 % quantile of the absolute errors, and their bias."""
    relative = sorted(abs(math.expm1(e)) for e in errors)
    return {
        "median": round(median(relative), 4),
        "mean": round(sum(relative) / len(relative), 4),
        "p80": round(relative[int(0.8 * (len(relative) - 1))], 4),
        "bias": round(math.expm1(median(errors)), 4),
    }


def run(systems: Path, write: bool) -> dict[str, dict[str, object]]:
    """Fit every device; print and return the errors of the held-out halves."""
    gap_s = graph_gap_s(systems)
    sys.stdout.write(f"gap between kernels of a graph: {gap_s * 1e6:.2f} us\n")
    results: dict[str, dict[str, object]] = {}
    for name, device_id in DEVICES.items():
        target = device(device_id)
        entries: dict[str, CalibratedValue] = {}
        version = ""
        for dtype, (rate, torch_dtype) in RATES.items():
            table = read_table(systems, name, dtype, gap_s)
            if table is None or not target.supports(torch_dtype):
                continue
            version = table.version
            carried = log_errors(table.held, target, home_constants(rate))
            row: dict[str, object] = {"points": len(table.held), "carried": figures(carried)}
            sys.stdout.write(f"{device_id:30s} {rate} carried {summary(carried)}\n")
            if name != HOME:
                values = fit_table(table, rate, target)
                fitted = log_errors(table.held, target, values)
                row["fitted"] = figures(fitted)
                sys.stdout.write(f"{'':30s} {rate} fitted  {summary(fitted)}\n")
                entries |= _entries(values, rate, fitted)
            results[f"{device_id} {rate}"] = row
        if write and entries:
            _write(device_id, version, entries)
    return results


def _entries(
    values: Mapping[str, float], rate: str, errors: list[float]
) -> dict[str, CalibratedValue]:
    """The constants with their interval; float16 runs at the same rates, so it gets the same."""
    half = spread(errors)
    out = {}
    for name, value in values.items():
        last = name.rsplit(".", 1)[1]
        if last not in FITTED:
            continue
        wide = half if last == "efficiency" else 0.0
        entry = CalibratedValue(
            value, UNIT.get(last, "1"), "calibrated", value * (1 - wide), value * (1 + wide)
        )
        out[name] = entry
        out[name.replace(f".{rate}.", ".fp16.")] = replace(
            entry, origin="estimated", note=f"as {rate}"
        )
    return out


def _write(device_id: str, version: str, entries: Mapping[str, CalibratedValue]) -> None:
    write_toml(CALIBRATIONS / device_id / "matmul.toml", source(version), entries)


def source(of: str) -> str:
    """Where constants come from, in words."""
    return f"published tables of aiconfigurator-core 0.12.0 (Apache-2.0), {of}"


def arguments(about: str | None) -> argparse.Namespace:
    """The command line that the fits to published tables share."""
    return parser(about).parse_args()


def parser(about: str | None) -> argparse.ArgumentParser:
    """What reads that command line."""
    found = argparse.ArgumentParser(description=(about or "").split("\n", 1)[0])
    found.add_argument("systems", type=Path, help="the package's folder 'systems'")
    found.add_argument("--write", action="store_true", help="store constants in the catalogue")
    return found


def fitted(about: str | None, run: Callable[[Path, bool], dict], results: Path) -> int:
    """Fit, print, and with --write store constants and errors."""
    args = arguments(about)
    found = run(args.systems, args.write)
    if args.write:
        results.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(fitted(__doc__, run, RESULTS))
