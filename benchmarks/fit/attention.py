"""Attention constants from the recorded micro-benchmarks: `python benchmarks/fit/attention.py`.

Each main kernel is fitted as

    t = start + (tiles on the busiest unit) * tile + (key blocks walked there) * block

by least squares of relative errors on half of the points (those bound by memory left out), judged
on the other half. `block` is stored as an efficiency: its FLOPs over the unit's peak in that time.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "validation/recordings/h200/micro/attention.csv.gz"
OUT = ROOT / "src/gpuscope/hardware/catalogue/calibrations/nvidia-h200-sxm/attention.toml"
UNITS = 132
BANDWIDTH = 4.8e12
PEAK = {"bf16": 989.4e12, "fp16": 989.4e12, "fp32": 66.9e12}

#: backend -> (substring of the forward kernel, of the backward kernel)
MAIN = {
    "cudnn": ("flash_fprop_wgmma", "flash_bprop_wgmma"),
    "flash": ("pytorch_flash::flash_fwd_kernel", "flash_bwd_dq_dk_dv"),
    "efficient": ("fmha_cutlassF", "fmha_cutlassB"),
}


def tiles(backend: str, backward: bool, d: int) -> tuple[int, int, bool]:
    from gpuscope.cost.attention.tiles import tile_shape

    return tile_shape(backend, d, backward)


def width(d: int) -> int:
    return 64 if d <= 64 else 128 if d <= 128 else 256


def load(p: dict, row_q: int, row_k: int, by_key: bool) -> tuple[float, float, float]:
    """Tiles and blocks on the busiest unit, and blocks in all."""
    from gpuscope.cost.attention.tiles import unit_load

    return unit_load(
        p["b"] * p["h"], p["sq"], p["skv"], p["causal"], row_q, row_k, UNITS, by_key=by_key
    )


def main() -> None:
    with gzip.open(DATA, "rt") as file:
        rows = [dict(r, p=json.loads(r["params"])) for r in csv.DictReader(file)]
    lines = [
        "# Attention kernels on an H200. Written by benchmarks/fit/attention.py from",
        "# validation/recordings/h200/micro/attention.csv.gz (half of the points; the other half",
        "# judged: see the notes).",
        "",
    ]

    def put(name: str, value: float, spread: float, unit: str, note: str = "") -> None:
        lines.extend(
            [
                f"[{name}]",
                f"value = {value:.4g}",
                f"low = {value * (1 - spread):.4g}",
                f"high = {value * (1 + spread):.4g}",
                f'unit = "{unit}"',
            ]
        )
        if note:
            lines.append(f'note = "{note}"')
        lines.append("")

    for backend, (forward, backward) in MAIN.items():
        for is_backward in (False, True):
            needle = backward if is_backward else forward
            for w in (64, 128, 256):
                for drop in (False, True):
                    for dtype in ("half", "float32"):
                        points = [
                            r
                            for r in rows
                            if needle in r["kernel"]
                            and r["p"]["sq"] > 1
                            and width(r["p"]["d"]) == w
                            and (r["p"]["p"] > 0) == drop
                            and (r["p"]["dtype"] == "fp32") == (dtype == "float32")
                            and (r["p"]["dir"] == "bwd") == is_backward
                        ]
                        fit(backend, is_backward, w, drop, dtype, points, put)
    stream(rows, put)
    dropout(rows, put)
    decode(rows, put)
    OUT.write_text("\n".join(lines))


def fit(backend, is_backward, w, drop, dtype, points, put) -> None:
    if len(points) < 6:
        return
    features, times, memory, halves = [], [], [], []
    for r in points:
        p = r["p"]
        tq, tk, by_key = tiles(backend, is_backward, p["d"])
        n, k, _ = load(p, tq, tk, by_key)
        size = 4 if p["dtype"] == "fp32" else 2
        kv_heads = p["hkv"] if p["gqa"] == "enable" else p["h"]
        q_bytes = p["b"] * p["h"] * p["sq"] * p["d"] * size
        kv = 2 * p["b"] * kv_heads * p["skv"] * p["d"] * size
        bytes_ = 2 * q_bytes + kv
        if is_backward:
            bytes_ = 5 * q_bytes + 2 * kv + 2 * q_bytes * 4 // size
        features.append((1.0, n, k * width_scale(p["d"], w)))
        times.append(float(r["median_us"]) * 1e-6)
        memory.append(bytes_ / (BANDWIDTH * 0.85))
        halves.append(zlib.crc32((r["params"] + r["state"]).encode()) % 2)
    a, t, m, h = np.array(features), np.array(times), np.array(memory), np.array(halves)
    use = (m < 0.75 * t) & (h == 0)
    if use.sum() < 4:
        return
    x = np.linalg.lstsq(a[use] / t[use, None], np.ones(use.sum()), rcond=None)[0]
    for i in (1, 0):
        if x[i] < 0:
            keep = [j for j in range(3) if j != i]
            x[i] = 0
            scaled = a[use][:, keep] / t[use, None]
            x[keep] = np.linalg.lstsq(scaled, np.ones(use.sum()), rcond=None)[0]
    predicted = x[0] + np.maximum(a[:, 1] * x[1] + a[:, 2] * x[2], m)
    error = predicted / t - 1
    judge = h == 1
    spread = float(np.quantile(np.abs(error[judge]), 0.8)) if judge.any() else 0.2
    tq, tk, _ = tiles(backend, is_backward, w)
    flops = (10 if is_backward else 4) * tq * tk * w
    efficiency = flops / x[2] / (PEAK["fp32" if dtype == "float32" else "bf16"] / UNITS)
    key = f"attention.{backend}.{'backward' if is_backward else 'forward'}.d{w}"
    key += ".dropout" if drop else ""
    key += ".float32" if dtype == "float32" else ""
    print(
        f"{key:48s} n {len(t):3d} start {x[0] * 1e6:5.2f} tile {x[1] * 1e6:5.2f} block "
        f"{x[2] * 1e6:6.3f} us  eff {efficiency:.3f}  held-out mean "
        f"{np.abs(error[judge]).mean() if judge.any() else float('nan'):.1%} "
        f"bias {error[judge].mean() if judge.any() else float('nan'):+.1%} 80% {spread:.1%}"
    )
    note = f"held-out mean error {np.abs(error[judge]).mean():.1%} on {int(judge.sum())} points"
    put(f"{key}.efficiency", efficiency, max(spread, 0.03), "1", note)
    put(f"{key}.tile_s", max(x[1], 1e-9), 0.2, "s")
    put(f"{key}.start_s", max(x[0], 1e-9), 0.2, "s")


def width_scale(d: int, w: int) -> float:
    """Head dimensions are padded to the kernel's width: the block's time does not shrink."""
    return 1.0


def stream(rows, put) -> None:
    """The helper kernels of the backward pass: bytes over their rate."""
    needles = {"dot": "dot_do_o", "convert": "convert_dq", "reduce": "fmha_reduce_head"}
    for name, needle in needles.items():
        rates, floors = [], []
        for r in rows:
            if needle not in r["kernel"] or "cudnn" not in r["kernel"]:
                continue
            p, t = r["p"], float(r["median_us"]) * 1e-6
            q = p["b"] * p["h"] * p["sq"] * p["d"] * 2
            reduced = q * p["skv"] / p["sq"]
            moved = {"dot": 2 * q + 2 * q, "convert": 2 * q + q, "reduce": reduced}[name]
            if moved > 64e6:
                rates.append(moved / t / BANDWIDTH)
            elif moved < 4e6:
                floors.append(t)
        if rates:
            value = float(np.median(rates))
            spread = float(np.quantile(np.abs(np.array(rates) / value - 1), 0.8))
            print(name, "rate share", value, spread, "floor", np.median(floors) if floors else None)
            put(f"attention.{name}.bandwidth_efficiency", value, max(spread, 0.05), "1")


def dropout(rows, put) -> None:
    """What drawing random numbers adds a score: pairs of points with and without dropout."""
    for direction, needle in (("forward", "flash_fprop_wgmma"), ("backward", "flash_bprop_wgmma")):
        times = {}
        for r in rows:
            p = r["p"]
            if needle not in r["kernel"] or p["sq"] <= 1 or r["state"] != "hot":
                continue
            if (p["dir"] == "bwd") == (direction == "backward"):
                same = tuple(sorted((k, str(v)) for k, v in p.items() if k != "p"))
                times[same, p["p"] > 0] = (float(r["median_us"]) * 1e-6, p)
        added = []
        for (same, drop), (seconds, p) in times.items():
            plain = times.get((same, False))
            if drop and plain:
                scores = p["b"] * p["h"] * p["sq"] * p["skv"] * (0.5 if p["causal"] else 1.0)
                if scores > 1e7:
                    added.append((seconds - plain[0]) / (scores / UNITS))
        print("dropout", direction, added)
        put(
            f"attention.dropout.{direction}.score_s",
            float(np.median(added)),
            0.2,
            "s",
            f"{len(added)} pairs of points with and without dropout",
        )


def decode(rows, put) -> None:
    """What the splits of the keys found is joined."""
    combine = [float(r["median_us"]) * 1e-6 for r in rows if "lean_reduction" in r["kernel"]]
    put("attention.combine_s", float(np.median(combine)), 0.2, "s")


if __name__ == "__main__":
    main()
