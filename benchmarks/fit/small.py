"""Fit float32 products, and convolutions on the vector lanes, to the kernels of small models, too.

    python benchmarks/fit/small.py [--rounds 6]

Reads `micro/small.jsonl.gz` (held_kernels_gaps.py: products of 64 to 4096, small convolutions
channels first) beside `matmul.csv.gz`, `wide.jsonl.gz` and `convolution.csv.gz`. The split is by
family of shapes: all layouts, biases and orders of one set of sizes are on one side. Prints both
sides' errors and the constants as TOML, for `matmul.toml` and `convolution.toml`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from recorded import MAX_MHZ, MICRO, Case, Recorded, fit, log_errors, loss, read, summary

from gpuscope.hardware import calibration_for, device
from gpuscope.measurement.calibrate.product_operators import convolution, product

WAYS = {"nt": ("mm", "NT"), "nn": ("mm", "NN"), "tn": ("mm", "TN"), "bias": ("linear_bias", "NT")}

PRODUCTS = {
    "bias_slices": 16.0,
    "bias_split": 2.0,
    "bias_store": 1.0,
    "bandwidth_efficiency": 0.9,
    "cold_s": 5e-7,
    "efficiency": 0.88,
    "floor_s": 2e-6,
    "l2_bytes_per_clock_per_unit": 19.0,
    "narrow": 18.0,
    "overlap": 1.8,
    "split_s": 1e-6,
    "step_s_per_byte": 3.3e-9,
    "store_bytes_per_clock_per_unit": 10.7,
    "tile_s": 5.5e-7,
}
SET_PRODUCTS = ("bias_slices", "bias_store", "bandwidth_efficiency")
"""Not fitted. Slices with a bias: kernel names show 4 to 33. Writing a tile out with a bias costs
nothing more: large outputs take the same time with and without. The bandwidth is the device's."""

DIRECT = {
    "bandwidth_efficiency": 0.6,
    "efficiency": 0.6,
    "floor_s": 2.5e-6,
    "narrow": 18.0,
    "overlap": 2.0,
    "split_s": 2e-6,
    "step_s_per_byte": 3.3e-9,
    "store_bytes_per_clock_per_unit": 20.0,
    "tile_s": 5e-7,
}
LIMITS = {"floor_s": (1.8e-6, 6e-6), "bandwidth_efficiency": (0.3, 1.0), "efficiency": (0.3, 1.0)}
"""Where physics ends: no kernel is shorter than a launch, none passes the memory."""


def recorded_small(group: str) -> Iterator[Recorded]:
    """The calls of one group of the recording."""
    with gzip.open(MICRO / "small.jsonl.gz", "rt") as lines:
        for row in map(json.loads, lines):
            if row["group"] == group:
                kernels = tuple((k["name"], k["grid"], k["us"] * 1e-6) for k in row["kernels"])
                yield Recorded(row["op"], row["params"], row["state"], kernels)


def unseen(family: object) -> bool:
    """Whether a family of shapes is held out."""
    return zlib.crc32(str(family).encode()) % 2 == 0


def random_products() -> Iterator[Recorded]:
    """The random float32 products of `wide.jsonl.gz`."""
    benches = {"mm": "mm", "bmm": "bmm", "addmm": "linear_bias"}
    with gzip.open(MICRO / "wide.jsonl.gz", "rt") as lines:
        for row in map(json.loads, lines):
            p = row.get("params", {})
            if row.get("kind") == "matmul" and p["dtype"] == "fp32" and p["op"] in benches:
                kernels = tuple((k[0], k[1], k[4] * 1e-6) for k in row["kernels"])
                given = {**p, "layout": p["layout"].upper()}
                clock = row["sm_mhz"] / MAX_MHZ
                yield Recorded(benches[p["op"]], given, row["state"], kernels, clock)


def products() -> tuple[list[Case], list[Case]]:
    """Float32 products: to fit, and held out."""
    sides: tuple[list[Case], list[Case]] = ([], [])
    for found in recorded_small("small_product"):
        p = found.params
        if p["dtype"] == "fp32":
            bench, layout = WAYS[str(p["way"])]
            (op,), settings = product(bench, {**p, "layout": layout})
            sides[unseen(sorted(int(str(p[x])) for x in "mnk"))].append(Case(found, op, settings))
    for found in random_products():
        (op,), settings = product(found.bench, found.params)
        sizes = sorted(int(str(found.params[x])) for x in "mnk")
        sides[unseen(sizes)].append(Case(found, op, settings))
    for found in read(MICRO / "matmul.csv.gz"):
        if found.params["dtype"] == "fp32" and found.kernels and found.total_s > 0:
            (op,), settings = product(found.bench, found.params)
            sides[found.held_out].append(Case(found, op, settings))
    return sides


def direct() -> tuple[list[Case], list[Case]]:
    """Forward convolutions that ran channels first on the vector lanes: to fit, and held out."""
    sides: tuple[list[Case], list[Case]] = ([], [])
    for found in recorded_small("small_convolution"):
        p = found.params
        shape: Any = p["shape"]
        n, c, size, k, r, stride, groups = shape[1:8]
        turned = any("nchwToNhwc" in name for name, _, _ in found.kernels)
        if p["dtype"] != "tf32" or p["dir"] != "fwd" or r == 1 or turned:
            continue
        given = {"n": n, "c": c, "hw": size, "k": k, "r": r, "stride": stride, "groups": groups}
        given |= {"pad": (r - 1) // 2, "dtype": "fp32", "layout": "nchw", "dir": "fwd"}
        (op,), settings = convolution("conv2d", given)
        sides[unseen([n, c, k, size])].append(Case(found, op, settings))
    for found in read(MICRO / "convolution.csv.gz"):
        p = found.params
        plain = p["dtype"] == "fp32" and p["dir"] == "fwd" and p["groups"] == 1
        if plain and found.kernels and found.total_s > 0:
            (op,), settings = convolution(found.bench, p)
            sides[found.held_out].append(Case(found, op, settings))
    return sides


def beyond(values: Mapping[str, float]) -> float:
    """How far constants are outside of what physics allows, as logarithms."""
    out = 0.0
    for name, value in values.items():
        low, high = LIMITS.get(name.rsplit(".", 1)[1], (0.0, math.inf))
        if not name.startswith("matmul.") and low:
            out += max(0.0, math.log(value / high)) + max(0.0, math.log(low / value))
    return out


def fitted(
    key: str,
    start: Mapping[str, float],
    keep: tuple[str, ...],
    sides: tuple[list[Case], list[Case]],
    rounds: int,
) -> None:
    """Fit one family's constants and print what came out."""
    target = device("h200")
    others = {n: e.value for n, e in calibration_for(target).entries if not n.startswith(key)}
    others |= {"dirty.matmul.dirty_l2_share": 0.4}
    mine = {key + name: value for name, value in start.items()}

    def score(trying: Mapping[str, float]) -> float:
        errors = log_errors(sides[0], target, {**others, **trying}, clocked=True)
        return loss(errors) + 0.2 * beyond(trying)

    say: Callable[[str], object] = sys.stdout.write
    shipped = {n: e.value for n, e in calibration_for(target).entries}
    mine = fit(mine, score, [key + n for n in start if n not in keep], rounds)
    for name, cases in zip(("fitted to", "unseen"), sides, strict=True):
        for label, values in (("shipped", shipped), ("new", {**others, **mine})):
            errors = log_errors(cases, target, values, clocked=True)
            say(f"{key} {name:9s} {label:8s} {summary(errors)}\n")
    for name, value in sorted(mine.items()):
        say(f'\n[{name}]\nvalue = {value:.5g}\nunit = "{"s" if name.endswith("_s") else "1"}"\n')


def main() -> int:
    """Fit both families."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=6)
    rounds = parser.parse_args().rounds
    fitted("matmul.fp32.", PRODUCTS, SET_PRODUCTS, products(), rounds)
    fitted("convolution.forward.fp32.", DIRECT, (), direct(), rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
