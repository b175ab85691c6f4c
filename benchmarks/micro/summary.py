"""Print the key constants of a recorded data folder as a Markdown table.

python benchmarks/micro/summary.py validation/recordings/h200/micro
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
FULL_CLOCK_MHZ = 1900
"""Rates are quoted from points whose SM clock was not lowered by the power limit."""


def rows(folder: Path, name: str) -> list[Row]:
    """Rows of one file; the JSON in ``params`` becomes columns of its own."""
    path = folder / f"{name}.csv.gz"
    if not path.exists():
        return []
    with gzip.open(path, "rt", newline="") as stream:
        found: list[Row] = list(csv.DictReader(stream))
    for row in found:
        if "params" in row:
            row.update({f"p_{k}": v for k, v in json.loads(row["params"]).items()})
    return found


def calls(folder: Path, name: str) -> list[Row]:
    """One row a point and state: ``us`` is the sum over its kernels, memsets and copies."""
    grouped: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows(folder, name):
        grouped[row["bench"], row["params"], row["state"]].append(row)
    out = []
    for parts in grouped.values():
        us = sum(float(p["median_us"]) * int(p["count"]) for p in parts)
        kernel = max(parts, key=lambda p: float(p["median_us"]))["kernel"]
        out.append({**parts[0], "us": us, "kernel": kernel})
    return out


def _matmul(folder: Path) -> Iterator[tuple[str, str]]:
    best: dict[str, tuple[float, Row]] = {}
    for call in calls(folder, "matmul"):
        if int(call["sm_mhz"] or 0) < FULL_CLOCK_MHZ and call["p_dtype"] not in ("fp8", "int8"):
            continue
        flops = 2.0 * call["p_m"] * call["p_n"] * call["p_k"] * call.get("p_b", 1)
        rate = flops / call["us"] / 1e6
        if rate > best.get(call["p_dtype"], (0.0, call))[0]:
            best[call["p_dtype"]] = (rate, call)
    for dtype, (rate, call) in best.items():
        shape = f"{call['p_m']}×{call['p_n']}×{call['p_k']} {call['p_layout']} {call['state']}"
        yield f"best matmul, {dtype}", f"{rate:.0f} TFLOP/s ({shape})"


def _attention(folder: Path) -> Iterator[tuple[str, str]]:
    for direction, factor in (("fwd", 4.0), ("bwd", 10.0)):
        for dtype in ("bf16", "fp32"):
            best, what = 0.0, ""
            for c in calls(folder, "attention"):
                if c["p_dir"] != direction or c["p_dtype"] != dtype or c["p_backend"] != "default":
                    continue
                share = 0.5 if c["p_causal"] else 1.0
                flops = factor * c["p_b"] * c["p_h"] * c["p_sq"] * c["p_skv"] * c["p_d"] * share
                if flops / c["us"] / 1e6 > best:
                    best = flops / c["us"] / 1e6
                    what = f"{c['p_b']}×{c['p_h']}×{c['p_sq']}×{c['p_d']}"
                    what += " causal" if c["p_causal"] else ""
            yield f"best attention {direction}, {dtype}", f"{best:.0f} TFLOP/s ({what})"


def _bandwidth(folder: Path) -> Iterator[tuple[str, str]]:
    sets = [c for c in calls(folder, "pointwise") if c["bench"] == "working_set"]
    for op, label in (
        ("ws_copy", "copy (read + written)"),
        ("ws_read", "read (sum)"),
        ("ws_write", "write (fill)"),
    ):
        rates = {c["p_mib"]: c["p_mib"] * 1.048576 / c["us"] for c in sets if c["p_op"] == op}
        large = max(rates)
        small = max((m for m in rates if m <= 48), key=lambda m: rates[m])
        yield f"HBM {label}", f"{rates[large]:.2f} TB/s ({large:.0f} MiB)"
        yield f"L2 {label}, best working set", f"{rates[small]:.2f} TB/s ({small:.0f} MiB)"


def _launch(folder: Path) -> Iterator[tuple[str, str]]:
    for row in rows(folder, "launch"):
        if row["case"].endswith(":add_"):
            mode = row["case"].split(":")[0]
            if mode == "idle":
                value = f"{row['latency_us']} µs (under the profiler), kernel {row['kernel_us']} µs"
                yield "launch call to kernel start, idle queue", value
            elif mode.startswith("saturated"):
                label = mode.replace("saturated_graph", "graph").replace("saturated", "full queue")
                yield f"gap between tiny kernels, {label}", f"{row['gap_us']} µs (profiled)"


HOST = (
    ("op", "add", "no_grad"),
    ("op", "add", "grad"),
    ("op", "add", "inference_mode"),
    ("op", "mm", "no_grad"),
    ("op", "linear", "no_grad"),
    ("op", "linear", "grad"),
    ("op", "layer_norm", "grad"),
    ("op", "softmax", "grad"),
    ("op", "sdpa_causal", "no_grad"),
    ("op", "sdpa_causal", "grad"),
    ("op", "conv2d", "grad"),
    ("op", "batch_norm_train", "grad"),
    ("op", "cross_entropy", "grad"),
    ("op", "view", "grad"),
    ("op", "transpose", "no_grad"),
    ("op", "empty", "no_grad"),
    ("op", "cat", "grad"),
    ("op", "embedding", "grad"),
    ("module", "empty_module", "grad"),
    ("module", "nn_linear", "grad"),
    ("backward_per_node", "mul_scalar", "chain100"),
    ("backward_per_node", "linear", "chain100"),
    ("backward_per_node", "layer_norm", "chain100"),
    ("backward_per_node", "view", "chain100"),
    ("backward_per_node", "sum_only_whole_call", "chain1"),
    ("optimizer_step", "adamw_foreach", "100"),
    ("optimizer_step", "adamw_fused", "100"),
    ("optimizer_step", "adamw_single", "100"),
    ("clip_grad_norm", "foreach", "100"),
    ("zero_grad", "set_to_none", "100"),
    ("autocast", "linear", "cached_weights"),
    ("autocast", "linear", "uncached"),
    ("sync", "item", "round_trip"),
    ("sync", "synchronize_idle", "round_trip"),
    ("graph", "replay_launch_host", "100"),
    ("graph", "replay_device", "1000"),
    ("queue", "add_", "device_ns_per_call_saturated"),
    ("queue", "launches_before_blocking", "count"),
    ("copy", "h2d_pinned_non_blocking", "65536"),
    ("copy", "h2d_pageable", "65536"),
    ("memory", "cuda_malloc", "33554432"),
    ("profiler", "add", "before"),
    ("profiler", "add", "on"),
    ("python", "int_loop_1e6", "per_iteration"),
)


def _host(folder: Path) -> Iterator[tuple[str, str]]:
    found = {
        (r["group"], r["name"], r["variant"]): float(r["median_ns"]) for r in rows(folder, "host")
    }
    for key in HOST:
        if key in found:
            ns = found[key]
            text = f"{ns / 1000:.2f} µs" if ns >= 500 else f"{ns:.0f} ns"
            text = f"{ns:.0f}" if key[2] == "count" else text
            yield "host: " + ", ".join(key), text


def _transfers(folder: Path) -> Iterator[tuple[str, str]]:
    best: dict[str, tuple[float, int]] = {}
    for call in calls(folder, "transfers"):
        rate = call["p_bytes"] / call["us"] / 1e3
        if rate > best.get(call["p_op"], (0.0, 0))[0]:
            best[call["p_op"]] = (rate, call["p_bytes"])
    large = {
        c["p_op"]: c["p_bytes"] / c["us"] / 1e3
        for c in calls(folder, "transfers")
        if c["p_bytes"] == 1 << 30
    }
    for op, (rate, size) in best.items():
        yield f"copy {op}", f"best {rate:.1f} GB/s ({size} B), 1 GiB {large[op]:.1f} GB/s"


def _power(folder: Path) -> Iterator[tuple[str, str]]:
    for row in rows(folder, "power"):
        rate = f"; {float(row['work_per_s']):.3g} {row['work_unit']}/s" if row["work_unit"] else ""
        energy = (
            f", {float(row['joule_per_work']) * 1e12:.3g} pJ each" if row["calls"] != "0" else ""
        )
        yield (
            f"power: {row['load']}",
            f"{row['mean_w']} W, SM {row['sm_mhz_mean']} MHz{rate}{energy}",
        )


def main() -> int:
    """Print the table of the folder named on the command line."""
    if len(sys.argv) != 2:
        sys.stderr.write(f"usage: {sys.argv[0]} FOLDER_WITH_CSV_GZ\n")
        return 2
    folder = Path(sys.argv[1])
    sys.stdout.write("| what | measured |\n|---|---|\n")
    for part in (_matmul, _attention, _bandwidth, _launch, _host, _transfers, _power):
        for label, value in part(folder):
            sys.stdout.write(f"| {label} | {value} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
