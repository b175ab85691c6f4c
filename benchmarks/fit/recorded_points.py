"""Recorded micro-benchmarks as points of `gpuscope.measurement.bench`, for fits and checks."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

from gpuscope.measurement.bench.types import KernelTime, Point

MICRO = Path(__file__).resolve().parents[2] / "validation" / "recordings" / "h200" / "micro"
BENCHES = (
    "matmul",
    "attention",
    "convolution",
    "pointwise",
    "reduction",
    "gather",
    "optimizers",
    "transfers",
    "recurrent",
)


def kernel_points(folder: Path = MICRO) -> list[Point]:
    """Every recorded call in every state; measured twice: the first counts."""
    return [p for name in BENCHES for p in _file(folder / f"{name}.csv.gz", name)]


def _file(path: Path, bench: str) -> list[Point]:
    if not path.exists():
        return []
    found: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    closed: set[tuple[str, str, str]] = set()
    with gzip.open(path, "rt", newline="") as stream:
        for row in csv.DictReader(stream):
            key = (row["bench"], row["params"], row["state"])
            if row["k"] == "0" and key in found:
                closed.add(key)
            if key not in closed:
                found.setdefault(key, []).append(row)
    return [_point(bench, key, rows) for key, rows in found.items()]


def _point(bench: str, key: tuple[str, str, str], rows: list[dict[str, str]]) -> Point:
    def total(column: str) -> float:
        return sum(float(r[column]) * 1e-6 * int(r["count"]) for r in rows)

    kernels = tuple(
        KernelTime(
            r["kernel"],
            r["category"],
            int(r["count"]),
            float(r["median_us"]) * 1e-6,
            float(r["min_us"]) * 1e-6,
            float(r["p90_us"]) * 1e-6,
            grid=r["grid"],
        )
        for r in rows
    )
    mhz = rows[0]["sm_mhz"]
    return Point(
        bench,
        key[0],
        json.loads(key[1]),
        key[2],
        total("median_us"),
        total("min_us"),
        total("p90_us"),
        int(rows[0]["n"]),
        kernels=kernels,
        sm_clock_hz=float(mhz) * 1e6 if mhz else None,
    )


def host_points(folder: Path = MICRO) -> list[Point]:
    """Host calls, made-up programs and launches, in the families of the host and launch benches."""
    found = []
    with gzip.open(folder / "host.csv.gz", "rt", newline="") as stream:
        for row in csv.DictReader(stream):
            variant = row["variant"].replace("device_ns_per_call_saturated", "device_saturated")
            params = {"name": row["name"], "variant": variant}
            seconds = (float(row[c]) * 1e-9 for c in ("median_ns", "min_ns", "p90_ns"))
            bench = "launch" if row["group"] in ("queue", "graph") else "host"
            found.append(
                Point(bench, row["group"], params, "host", *seconds, n=int(row["batches"]))
            )
    for path in sorted(folder.glob("host_programs_*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            params = {"name": row["program"], "variant": row["mode"]}
            found.append(Point("host", "program", params, "host", row["seconds"]))
    with gzip.open(folder / "launch.csv.gz", "rt", newline="") as stream:
        for row in csv.DictReader(stream):
            mode, _, name = row["case"].partition(":")
            for kind, column in (("latency", "latency_us"), ("gap", "gap_us"), ("call", "api_us")):
                if row[column] and "spin" not in row["kernel"]:
                    found.append(
                        Point(
                            "launch",
                            f"launch_{kind}",
                            {"name": name, "variant": mode},
                            "host",
                            float(row[column]) * 1e-6,
                            n=int(row["n"]),
                        )
                    )
    return found
