"""Fit products and memory of TPU v6e and TPU7x to the figures that Google publishes.

    python benchmarks/fit/published_tpu.py [--write]

AI-Hypercomputer/tpu-recipes at c8cfe2f prints what its micro-benchmarks give: for a v6e one square
bfloat16 product and one copy (microbenchmarks/README.md, by the device's own trace), for a core of
TPU7x products of eight sizes and copies of thirteen (microbenchmarks/ironwood/README.md,
hbm/hbm.md). Of TPU7x every second figure is fitted, the others judge. Of v6e there is one of each:
nothing is left to judge with, so its intervals are a judgement. Time that grows as clocks fall
under power (`throttle`) is not carried from the H200: nothing is published about it.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from published import figures
from recorded import Case, Recorded, fit, log_errors, loss, spread, summary, write_toml

from gpuscope.hardware import Device, device
from gpuscope.hardware.calibration import CALIBRATIONS, CalibratedValue, load_calibration
from gpuscope.measurement.calibrate.product_operators import dense
from gpuscope.program.types import Op

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "published_tpu.json"
SOURCE = "AI-Hypercomputer/tpu-recipes at c8cfe2f, microbenchmarks"
HOME = "nvidia-h200-sxm"

V6E_PRODUCT_S = {8192: 1.328756094e-3}
"""Rows, columns and depth -> seconds."""

V6E_COPY_S = {33_554_432: 4.9359414e-5}
"""Bytes of the tensor -> seconds; each is read and written."""

TPU7X_TFLOPS = {
    128: 2.589961271,
    256: 18.28645367,
    512: 105.0783466,
    1024: 349.7270639,
    2048: 679.284728,
    4096: 892.9445127,
    16384: 950.1286983,
    32768: 956.3824592,
}
"""Rows, columns and depth -> TFLOP/s of one core."""

TPU7X_GBPS = {
    2097152: 1379.335021,
    4194304: 2249.746091,
    8388608: 2246.129937,
    16777216: 2757.308985,
    33554432: 3009.83593,
    67108864: 3097.217778,
    134217728: 3176.50274,
    268435456: 3167.144485,
    536870912: 3199.020504,
    1073741824: 3198.414211,
    2147483648: 3203.486119,
    4294967296: 3197.879607,
    8589934592: 3210.480912,
}
"""Bytes of the tensor -> GB/s of one core, read and written together."""

UNSURE = 0.10
"""Relative half-width where one figure is all there is (a judgement)."""

FIXED = {"matmul.bf16.throttle": 0.0, "gemm.reach": 1.0}
FITTED = {
    "matmul": ("matmul.bf16.efficiency", "matmul.bf16.floor_s"),
    "bandwidth": ("bandwidth.write_efficiency", "bandwidth.read_efficiency", "bandwidth.floor_s"),
}


def products(seconds: Mapping[int, float]) -> list[Case]:
    """Square products with their times."""
    found = []
    for size, taken in seconds.items():
        x = dense(size, size, dtype="bfloat16")
        op = Op(0, "aten::mm", inputs=(x, x), outputs=(x,))
        found.append(_case("matmul", size, taken, op))
    return found


def copies(seconds: Mapping[int, float]) -> list[Case]:
    """Copies of tensors with their times."""
    found = []
    for size, taken in seconds.items():
        x = dense(size // 2, dtype="bfloat16")
        op = Op(0, "aten::clone", inputs=(x,), outputs=(x,))
        found.append(_case("copy", size, taken, op))
    return found


def _case(name: str, size: int, seconds: float, op: Op) -> Case:
    return Case(Recorded(name, {"size": size}, "cold_clean", (("", "", seconds),)), op, ())


def core(chip: Device) -> Device:
    """One core of a chip of several, with its share of the memory."""
    share = 1.0 / (chip.compute_units or 1)
    return chip.replace(
        compute_units=1,
        memory_bandwidth_bytes_per_s=chip.memory_bandwidth_bytes_per_s * share,
        on_chip_sram_bytes=(chip.on_chip_sram_bytes or 0) * share,
    )


def fitted(
    target: Device, family: str, cases: Sequence[Case], known: dict[str, float]
) -> dict[str, float]:
    """The constants that give the cases' times best; floors only where there are several."""
    names = [n for n in FITTED[family] if len(cases) > 1 or not n.endswith("_s")]
    if len(cases) == 1:  # one figure cannot tell reading from writing
        names = names[:1]

    def evaluate(values: Mapping[str, float]) -> float:
        tried = _alike(values) if len(cases) == 1 else values
        if any(tried[name] > 1.0 for name in names if name.endswith("efficiency")):
            return math.inf
        return loss(log_errors(cases, target, tried))

    found = fit(known, evaluate, names, 12)
    return dict(_alike(found)) if len(cases) == 1 else found


def _alike(values: Mapping[str, float]) -> dict[str, float]:
    return {**values, "bandwidth.read_efficiency": values["bandwidth.write_efficiency"]}


def run(write: bool) -> dict[str, dict[str, object]]:
    """Fit both devices; print and return the errors."""
    home = load_calibration(CALIBRATIONS / HOME)
    carried = {n: e.value for n, e in home.entries if e.unit in ("1", "s")} | FIXED
    v7 = core(device("google-tpu-v7"))
    seconds = {size: 2e-12 * size**3 / rate for size, rate in TPU7X_TFLOPS.items()}
    moved = {size: 2e-9 * size / rate for size, rate in TPU7X_GBPS.items()}
    sets = {
        ("google-tpu-v7", "matmul"): (v7, products(seconds)),
        ("google-tpu-v7", "bandwidth"): (v7, copies(moved)),
        ("google-tpu-v6e", "matmul"): (device("google-tpu-v6e"), products(V6E_PRODUCT_S)),
        ("google-tpu-v6e", "bandwidth"): (device("google-tpu-v6e"), copies(V6E_COPY_S)),
    }
    results: dict[str, dict[str, object]] = {}
    floors: dict[str, float] = {}
    for (name, family), (target, cases) in sets.items():
        train, held = cases[::2], cases[1::2]
        known = fitted(target, family, train, carried | floors)
        if held:
            floors |= {n: known[n] for n in FITTED[family] if n.endswith("_s")}
            results[f"{name} {family}"] = {
                "points": len(held),
                "carried": figures(log_errors(held, target, carried)),
                "fitted": figures(log_errors(held, target, known)),
            }
        judged = held or train
        before, after = (summary(log_errors(judged, target, v)) for v in (carried, known))
        sys.stdout.write(f"{name:16s}{family:10s} carried {before}\n{'':26s} fitted  {after}\n")
        half = spread(log_errors(held, target, known)) if held else UNSURE
        if write:
            write_toml(CALIBRATIONS / name / f"{family}.toml", SOURCE, entries(known, family, half))
    return results


def entries(known: Mapping[str, float], family: str, half: float) -> dict[str, CalibratedValue]:
    """The constants with their interval."""
    fixed = FIXED if family == "matmul" else {}
    out = {}
    for name in (*FITTED[family], *fixed):
        value = known[name]
        wide = half if name.endswith("efficiency") else 0.0
        unit = "s" if name.endswith("_s") else "1"
        out[name] = CalibratedValue(
            value, unit, "calibrated", value * (1 - wide), value * (1 + wide)
        )
    return out


def main() -> int:
    """Fit, print, and with --write store constants and errors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--write", action="store_true", help="store constants in the catalogue")
    write = parser.parse_args().write
    results = run(write)
    if write:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
