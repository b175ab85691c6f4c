"""Fit collectives inside a node to published NCCL times of several devices.

    python benchmarks/fit/published_collectives.py TABLES/aiconfigurator_core/systems [--write]

The tables (see `published.py`) hold the time of four collectives by elements, type and number of
devices of one node; float16 is used, since switches add no int8. Fitted: a base and a step latency
of each NCCL protocol, and for each collective and group size the share of the link's rate that
large messages reach. Odd sizes of the list are fitted, even ones judge.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as parquet
from published import figures, fitted, source
from recorded import fit, loss, spread, summary, write_toml

from gpuscope.cost.collective.ways import (
    NCCL,
    PROTOCOLS,
    Tuning,
    all_reduce_s,
    all_to_all_s,
    gather_s,
    group_of,
    reduce_scatter_s,
)
from gpuscope.hardware import device
from gpuscope.hardware.calibration import CALIBRATIONS, CalibratedValue
from gpuscope.hardware.cluster import build_cluster

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "published_collectives.json"

DEVICES = {
    "a100_sxm": "nvidia-a100-sxm-80gb",
    "h100_sxm": "nvidia-h100-sxm",
    "b200_sxm": "nvidia-b200",
    "b300_sxm": "nvidia-b300",
    "gb200": "nvidia-gb200",
    "gb300": "nvidia-gb300",
    "h200_sxm": "nvidia-h200-sxm",
    "rtx_pro_6000_server": "nvidia-rtx-pro-6000-blackwell",
}
"""Folder of the tables -> catalogue id. The L40S is left out: its node's PCIe switches set the
time there (8 devices share what one has), which no figure of the device tells."""

TIMES = {
    "all_reduce": all_reduce_s,
    "all_gather": gather_s,
    "reduce_scatter": reduce_scatter_s,
    "alltoall": all_to_all_s,
}
NAMES = {"alltoall": "all_to_all"}

Point = tuple[str, int, float, float]
"""(collective, ranks, bytes, seconds)."""


def read(systems: Path, name: str) -> list[Point]:
    """All points of a device's newest NCCL table, by collective, ranks and bytes."""
    files = sorted((systems / "data" / name / "comm" / "nccl").glob("*/nccl_perf.parquet"))
    rows = parquet.read_table(files[-1], filters=[("nccl_dtype", "=", "half")]).to_pylist()
    return sorted(
        (r["op_name"], r["num_gpus"], 2.0 * r["message_size"], r["latency"] * 1e-3) for r in rows
    )


def tuning_from(values: Mapping[str, float]) -> Tuning:
    """The model's own form of fitted constants."""
    protocols = tuple(
        replace(p, base_s=values[f"{p.name}.base_s"], link_s=values[f"{p.name}.link_s"])
        for p in PROTOCOLS
    )
    shares: dict[str, list[tuple[int, float]]] = {}
    for name, value in values.items():
        if ".efficiency_" in name:
            operation, _, ranks = name.partition(".efficiency_")
            shares.setdefault(operation, []).append((int(ranks), value))
    return Tuning(protocols, {k: tuple(sorted(v)) for k, v in shares.items()}, nvls=False)


OWN = "nvidia-h200-sxm"
"""Fitted to this project's own recordings: `collectives.py`."""

RING_SHARE = 0.8
"""Of a ring of eight without in-switch additions, which the tables were not measured with: an
all-reduce of 1 GiB takes 5.2 ms on eight H200."""


def split(values: Mapping[str, float], adds: bool) -> dict[str, float]:
    """The shares of all-reduces of three ranks and more as those of the switch's additions.

    Fitted as if a ring, whose bytes are 2 (n - 1) / n of the message where the switch moves
    1 + 1 / n.
    """
    found = dict(values)
    for name, whole in values.items():
        n = int(name.rpartition("_")[2]) if name.startswith("all_reduce.efficiency_") else 0
        if adds and n > 2:
            found[name] = min(whole, RING_SHARE)
            found[f"nvls.efficiency_{n}"] = whole * (n + 1) / (2 * (n - 1))
    return found


def errors(device_id: str, points: list[Point], tuning: Tuning) -> list[float]:
    """ln(predicted / measured)."""
    cluster = build_cluster(device(device_id), 8)
    return [
        math.log(TIMES[name](group_of(cluster, ranks), size, tuning) / seconds)
        for name, ranks, size, seconds in points
    ]


def run(systems: Path, write: bool) -> dict[str, object]:
    """Fit every device; print and return the errors of the held-out half."""
    results: dict[str, object] = {}
    for name, device_id in DEVICES.items():
        points = read(systems, name)
        train, held = points[::2], points[1::2]
        values = {
            f"{p.name}.{part}": getattr(p, part) for p in PROTOCOLS for part in ("base_s", "link_s")
        }
        for operation, ranks in sorted({(NAMES.get(p[0], p[0]), p[1]) for p in points}):
            values[f"{operation}.efficiency_{ranks}"] = 0.75

        def score(
            trying: Mapping[str, float], device_id: str = device_id, over: list[Point] = train
        ) -> float:
            return loss(errors(device_id, over, tuning_from(trying)))

        before = errors(device_id, held, NCCL)
        values = fit(values, score, list(values), 7)
        after = errors(device_id, held, tuning_from(values))
        sys.stdout.write(f"{device_id:30s} carried {summary(before)}\n")
        sys.stdout.write(f"{'':30s} fitted  {summary(after)}\n")
        results[device_id] = {
            "points": len(held),
            "carried": figures(before),
            "fitted": figures(after),
        }
        if write and device_id != OWN:
            _write(device_id, values, after)
    return results


def _write(device_id: str, values: Mapping[str, float], found: list[float]) -> None:
    half = spread(found)
    values = split(values, group_of(build_cluster(device(device_id), 8), 8).adds)
    entries = {
        f"collective.{name}": CalibratedValue(
            value, "s" if name.endswith("_s") else "1", "calibrated", value, value
        )
        for name, value in values.items()
    }
    entries["collective.scale"] = CalibratedValue(
        1.0,
        "1",
        "calibrated",
        1 - half,
        1 + half,
        f"measured over predicted, {len(found)} held-out points; large all-reduces use the "
        "switches' own additions (NVLS) where there are some",
    )
    write_toml(CALIBRATIONS / device_id / "collective.toml", source("NCCL in one node"), entries)


if __name__ == "__main__":
    sys.exit(fitted(__doc__, run, RESULTS))
