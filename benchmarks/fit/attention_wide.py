"""Attention constants from random and regular calls: `python benchmarks/fit/attention_wide.py`.

Reads `validation/recordings/h200/micro/wide.jsonl.gz` and `attention.csv.gz`. A main kernel is

    t = start + cold + tiles * tile + steps * (step + mask + odd + dropout)

on the busiest multiprocessor, where *cold* counts where nothing is in the L2, *mask* and *odd* (its
rows are no multiple of 16 bytes) where scores are added to, *dropout* where random numbers are
drawn: non-negative least squares of relative errors, outliers weighted down. Fitted on half of the
calls, judged on the other half, then fitted on all. Decoding: `decode_s`, by coordinate descent.
`--write` puts the values into the calibration; entries that are not fitted here are kept.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import re
import sys
import tomllib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuscope.cost.attention.decode import DecodeRates, decode_s
from gpuscope.cost.attention.tiles import unit_load

ROOT = Path(__file__).resolve().parents[2]
MICRO = ROOT / "validation/recordings/h200/micro"
OUT = ROOT / "src/gpuscope/hardware/catalogue/calibrations/nvidia-h200-sxm/attention.toml"
UNITS, BANDWIDTH, L2_BYTES = 132, 4.8e12, 62_914_560
PEAK = {"half": 989.4e12, "float32": 66.9e12}


@dataclass(frozen=True)
class Timed:
    """One kernel of one call: the call's sizes, the state, the kernel's name, grid and time."""

    p: dict[str, Any]
    state: str
    name: str
    blocks: int
    seconds: float

    @property
    def fitted(self) -> bool:
        """Whether constants may see it; the others judge."""
        return zlib.crc32(json.dumps(self.p, sort_keys=True).encode()) % 2 == 0


def calls() -> Iterator[Timed]:
    """Every kernel of both recordings."""

    def blocks(grid: str) -> int:
        return math.prod(int(n) for n in grid.split("x") if n)

    with gzip.open(MICRO / "wide.jsonl.gz", "rt") as lines:
        for row in map(json.loads, lines):
            if row.get("kind") == "attention" and "us" in row:
                for name, grid, _, _, us in row["kernels"]:
                    yield Timed(row["params"], row["state"], name, blocks(grid), us * 1e-6)
    with gzip.open(MICRO / "attention.csv.gz", "rt") as lines:
        for row in csv.DictReader(lines):
            p = json.loads(row["params"])
            shared = p["hkv"] if p.get("gqa") == "enable" else p["h"]
            masked = p.get("mask") not in (None, False, "none")
            p |= {"hkv": shared, "mask": "float" if masked else "none", "dropout": p["p"]}
            seconds = float(row["median_us"]) * 1e-6
            yield Timed(p, row["state"], row["kernel"], blocks(row["grid"]), seconds)


@dataclass(frozen=True)
class Group:
    """A kernel: where its constants live, how its names look, its tile."""

    key: str
    pattern: str
    tile_q: int
    tile_k: int
    by_key: bool
    width: int
    rate: str = "half"


def groups() -> Iterator[Group]:
    """cuDNN's kernels for half precision, the memory-efficient ones for float32."""
    for w in (64, 128, 192, 256):
        yield Group(f"cudnn.forward.d{w}", rf"sm90_flash_fprop\w*_64x\d+x{w}_", 128, 128, False, w)
        keys = 128 if w <= 128 else 64
        yield Group(f"cudnn.backward.d{w}", rf"sm90_flash_bprop\w*_64x\d+x{w}_", 64, keys, True, w)
    for key, pattern, q, k, by_key, w in (
        ("forward.d64", "F_f32_aligned_64x64_rf", 64, 64, False, 64),
        ("forward.d128", "F_f32_aligned_64x128_rf", 64, 128, False, 128),
        ("forward.d256", "F_f32_aligned_32x128_gmem", 32, 128, False, 256),
        ("backward.d64", "B_f32_aligned_64x64_k(32|64)", 64, 64, True, 64),
        ("backward.d128", "B_f32_aligned_128x64_k128", 128, 64, True, 128),
        ("backward.d256", "B_f32_aligned_128x64_k65536", 128, 64, True, 256),
    ):
        yield Group(f"efficient.{key}.float32", pattern, q, k, by_key, w, "float32")


def features(call: Timed, group: Group) -> tuple[float, ...] | None:
    """The multipliers of the constants; None where memory sets the time."""
    p = call.p
    tiles, steps, _ = unit_load(
        p["b"] * p["h"],
        p["sq"],
        p["skv"],
        p["causal"],
        group.tile_q,
        group.tile_k,
        UNITS,
        by_key=group.by_key,
    )
    size = 4 if p["dtype"] == "fp32" else 2
    queries = p["b"] * p["h"] * p["sq"] * p["d"] * size
    keys = 2 * p["b"] * p["hkv"] * p["skv"] * p["d"] * size
    moved = 5 * queries + 2 * keys + 8 * queries / size if group.by_key else 2 * queries + keys
    if moved / (BANDWIDTH * 0.85) > 0.75 * call.seconds:
        return None
    masked, odd = p["mask"] != "none", p["skv"] * size % 16 != 0
    return (
        1.0,
        tiles,
        steps,
        steps * (masked and not odd),
        steps * (masked and odd),
        steps * (p["dropout"] > 0),
        float(call.state == "cold"),
    )


def nonnegative(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Least squares without negative parts: the most negative column is dropped, and again."""
    used = [i for i in range(a.shape[1]) if np.abs(a[:, i]).max() > 0]
    x = np.zeros(a.shape[1])
    while used:
        norm = np.linalg.norm(a[:, used], axis=0)
        found = np.linalg.lstsq(a[:, used] / norm, b, rcond=None)[0] / norm
        if (found >= 0).all():
            x[used] = found
            break
        used.pop(int((found * norm).argmin()))
    return x


def solve(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Constants with the least mean relative error, by weighting large errors down."""
    weight = np.ones(len(t))
    for _ in range(8):
        found = nonnegative(x * (weight / t)[:, None], weight)
        weight = 1 / np.sqrt(np.maximum(np.abs(x @ found / t - 1), 0.02))
    return found


def fit_group(group: Group, all_of: list[Timed]) -> dict[str, tuple[float, str]]:
    """Constants of one kernel, and how well they do on calls they have not seen."""
    kept = [
        (c, f)
        for c in all_of
        if c.p["sq"] > 1
        and re.search(group.pattern, c.name)
        and (f := features(c, group)) is not None
    ]
    if len(kept) < 6:
        return {}
    x = np.array([f for _, f in kept], float)
    t = np.array([c.seconds for c, _ in kept])
    seen = np.array([c.fitted for c, _ in kept])
    judged = np.abs(x[~seen] @ solve(x[seen], t[seen]) / t[~seen] - 1)
    found = solve(x, t)
    start, tile, step, mask, odd, drop, cold = found
    area = group.tile_q * group.tile_k
    flops = (10 if group.by_key else 4) * area * group.width
    spread = max(float(np.quantile(np.abs(x @ found / t - 1), 0.8)), 0.04)
    sys.stdout.write(
        f"{group.key:32s} n {len(t):4d}  judged: mean {judged.mean():5.1%} "
        f"median {np.median(judged):5.1%}  spread {spread:.1%}\n"
    )
    values = {
        "efficiency": (flops / step / (PEAK[group.rate] / UNITS), "1"),
        "tile_s": (tile, "s"),
        "start_s": (start, "s"),
        "cold_s": (cold, "s"),
    }
    for name, value in (("mask_s", mask), ("mask_odd_s", odd), ("dropout_s", drop)):
        if value > 0:
            values[name] = (value / area, "s")
    base = f"attention.{group.key}"
    out = {f"{base}.{name}": value for name, value in values.items()}
    return out | {f"{base}.spread": (spread, "")}


NAMES = (
    "start_s",
    "alone_s",
    "shared_s",
    "mask_s",
    "mask_odd_s",
    "cold_s",
    "bandwidth_efficiency",
    "l2_ratio",
)
BEGIN: tuple[float, ...] = (2.5e-6, 5e-7, 5e-7, 3e-7, 3e-7, 1e-6, 0.9, 1.3)


def fit_decode(width: int, all_of: list[Timed]) -> dict[str, tuple[float, str]]:
    """Constants of the split kernel for one query a head."""
    pattern = rf"sm80_flash_fprop_wmma\w*knob_35_16x128x{width}_"
    kept = [c for c in all_of if c.p["sq"] == 1 and re.search(pattern, c.name)]

    def error(values: tuple[float, ...], over: list[Timed]) -> list[float]:
        rates = DecodeRates(**dict(zip(NAMES, values, strict=True)))
        return [
            decode_s(
                rates,
                width,
                UNITS,
                BANDWIDTH,
                blocks=c.blocks,
                keys=c.p["skv"],
                splits=c.blocks // (c.p["b"] * c.p["hkv"]) // (2 if width > 128 else 1),
                read_bytes=4.0 * c.p["b"] * c.p["hkv"] * c.p["skv"] * c.p["d"],
                hot=c.state == "hot"
                and 4.0 * c.p["b"] * c.p["hkv"] * c.p["skv"] * c.p["d"] < 0.75 * L2_BYTES,
                masked=c.p["mask"] != "none",
            )[0]
            / c.seconds
            - 1
            for c in over
        ]

    def descend(over: list[Timed]) -> tuple[float, ...]:
        values, step = BEGIN, 1.5
        best = np.abs(error(values, over)).mean()
        for _ in range(8):
            for i in range(len(values)):
                for factor in (step, 1 / step):
                    while True:
                        tried = (*values[:i], values[i] * factor, *values[i + 1 :])
                        if (found := np.abs(error(tried, over)).mean()) >= best - 1e-5:
                            break
                        values, best = tried, found
            step = math.sqrt(step)
        return values

    judged = np.abs(
        error(descend([c for c in kept if c.fitted]), [c for c in kept if not c.fitted])
    )
    values = descend(kept)
    spread = float(np.quantile(np.abs(error(values, kept)), 0.8))
    sys.stdout.write(
        f"decode d{width:3d} n {len(kept):4d}  judged: mean {judged.mean():5.1%} "
        f"median {np.median(judged):5.1%}  spread {spread:.1%}\n"
    )
    base = f"attention.decode.d{width}"
    out = {
        f"{base}.{n}": (v, "s" if n.endswith("_s") else "1")
        for n, v in zip(NAMES, values, strict=True)
    }
    return out | {f"{base}.spread": (spread, "")}


def write(found: dict[str, tuple[float, str]], drop: Callable[[str], bool]) -> None:
    """Put constants into the calibration file; `drop` says which old ones go."""
    old = tomllib.loads(OUT.read_text())
    entries: dict[str, dict[str, Any]] = {}

    def walk(prefix: str, table: dict[str, Any]) -> None:
        if "value" in table:
            entries[prefix] = table
            return
        for key, inner in table.items():
            if isinstance(inner, dict):
                walk(f"{prefix}.{key}".lstrip("."), inner)

    walk("", old)
    entries = {n: e for n, e in entries.items() if not drop(n)}
    for name, (value, unit) in found.items():
        if unit:
            spread = found[name.rsplit(".", 1)[0] + ".spread"][0]
            if name.rsplit(".", 1)[1] not in ("efficiency", "bandwidth_efficiency"):
                spread = 0.2
            entries[name] = {
                "value": value,
                "low": value * (1 - spread),
                "high": value * (1 + spread),
                "unit": unit,
            }
    lines = [
        "# Attention kernels on an H200. Written by benchmarks/fit/attention_wide.py and",
        "# benchmarks/fit/attention.py from validation/recordings/h200/micro.",
        "",
    ]
    for name, entry in sorted(entries.items()):
        lines.append(f"[{name}]")
        for key, value in entry.items():
            lines.append(f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value:.4g}")
        lines.append("")
    OUT.write_text("\n".join(lines))


def main() -> None:
    """Fit, judge, and write where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--write", action="store_true", help="into the calibration")
    args = parser.parse_args()
    all_of = list(calls())
    found: dict[str, tuple[float, str]] = {}
    for group in groups():
        found |= fit_group(group, all_of)
    for width in (64, 128, 256):
        found |= fit_decode(width, all_of)
    if args.write:
        fitted = {name.rsplit(".", 1)[0] for name in found}
        write(
            found,
            lambda n: (
                n.rsplit(".", 1)[0] in fitted
                or (".dropout." in n and n.startswith("attention.cudnn"))
            ),
        )


if __name__ == "__main__":
    main()
