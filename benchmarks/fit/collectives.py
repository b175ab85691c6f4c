"""Fit collectives inside a node to those recorded on 2 and 4 H200s, protocol by protocol.

    python benchmarks/fit/collectives.py [--write]

`overlap-2.jsonl` has each NCCL protocol by itself (two ranks), and the kernels of what NCCL takes;
`collectives-4.jsonl` has loops of what it chooses among two and four ranks. A loop's period is the
kernel and some 2 us until the next begins, which is taken off. Half of the sizes is fitted, the
other half judges. In-switch additions were off.

For eight ranks, which were not measured here, shares stay those of published tables (see
`published_collectives.py`); an all-reduce without in-switch additions has that of a known figure:
1 GiB in 5.2 ms.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from recorded import fit, loss, spread, summary, trial, write_toml

from gpuscope.cost.collective.messages import pair_way
from gpuscope.cost.collective.types import Tuning
from gpuscope.cost.collective.ways import chosen, group_of, tuning_of, ways
from gpuscope.hardware import device, parse_target
from gpuscope.hardware.calibration import CALIBRATIONS, CalibratedValue, calibration_for

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "validation" / "recordings" / "h200"
H200 = device("h200")
NODE = parse_target("8xh200")
MEASURED_WITH = (
    "2 and 4 H200 SXM, torch 2.11.0+cu130, NCCL 2.28.9, NVLS off, 2026-11-21; eight ranks: "
    "published tables of aiconfigurator-core 0.12.0 (Apache-2.0)"
)
OTHER_SUMS = {
    ("collectives-4", "all_reduce"),
    ("overlap", "all_reduce"),
    ("overlap", "reduce_scatter"),
}
"""Recorded with the largest value as the reduction, not the sum."""

EIGHT_S, EIGHT_BYTES = 5.2e-3, 2**30
LEAST_BYTES = 4096
ANOTHER_JOB = 0.05
"""What the same calls differ by from job to job: 4 to 5 % at 16 MiB between collectives-4.jsonl and
benchmarks/results/collectives_check.json."""

MOST_SHARE = 0.83
"""No collective reaches more of a link (copies between two devices reach 0.88)."""


@dataclass(frozen=True)
class Point:
    """One measured collective; `protocol` is "" for NCCL's own choice."""

    operation: str
    ranks: int
    size: int
    seconds: float
    protocol: str = ""
    other_sum: bool = False

    @property
    def held_out(self) -> bool:
        """Every second size judges."""
        return round(math.log2(self.size)) // 2 % 2 == 1


def rows(name: str) -> list[dict[str, object]]:
    """A recording's lines."""
    return [json.loads(line) for line in (RECORDED / name).read_text().splitlines()]


def gap_s() -> float:
    """What a loop's period is longer than the kernel."""
    found = [
        median(r["loop_s"]) - median(r["kernel_s"])
        for r in rows("overlap-2.jsonl")
        if r["part"] == "alone"
        and r["operation"] in ("all_reduce", "all_gather", "broadcast")
        and r["bytes"] <= 1 << 20
    ]
    return median(found)


def step_s() -> float:
    """A ring's step under LL: what four ranks take longer than two, for each step more.

    Read off directly, since the fit would trade it for the base.
    """
    found: dict[tuple[str, int, int], float] = {}
    for r in rows("collectives-4.jsonl"):
        if r["bench"] == "collectives" and r.get("state") == "queued" and r["bytes"] <= 1 << 18:
            found[r["operation"], r["bytes"], r["ranks"]] = median(r["seconds"])
    steps = {"all_reduce": 4, "all_gather": 2, "reduce_scatter": 2}
    return median(
        (found[name, size, 4] - found[name, size, 2]) / steps[name]
        for name, size, ranks in found
        if ranks == 2 and name in steps and size >= 1 << 14
    )


def points() -> Iterator[Point]:
    """All points of both recordings."""
    gap = gap_s()
    for r in rows("overlap-2.jsonl"):
        other = ("overlap", r.get("operation")) in OTHER_SUMS
        if r["part"] == "protocols" and r["algorithm"] == "Ring":
            yield Point(
                r["operation"], r["ranks"], r["bytes"], min(r["loop_s"]) - gap, r["protocol"], other
            )
        elif r["part"] == "point" and r["way"] == "one way":
            yield Point("send", 2, r["bytes"], r["message_s"] - gap)
        elif r["part"] == "alone":
            yield Point(r["operation"], r["ranks"], r["bytes"], median(r["kernel_s"]), "", other)
    for r in rows("collectives-4.jsonl"):
        if r["bench"] != "collectives" or r.get("state") != "queued":
            continue
        if r["operation"] == "send_recv" and (r["ranks"] > 2 or r["bytes"] < 1 << 22):
            continue  # asynchronous calls: the host sets the pace of small ones
        other = ("collectives-4", r["operation"]) in OTHER_SUMS
        yield Point(r["operation"], r["ranks"], r["bytes"], median(r["seconds"]) - gap, "", other)


def predicted_s(point: Point, tuning: Tuning) -> float:
    """What the model says."""
    group = group_of(NODE, point.ranks)
    if point.operation == "send_recv":
        return pair_way(group_of(NODE, 2), point.size, tuning, exchange=True).time_s
    if point.operation == "send":
        return pair_way(group_of(NODE, 2), point.size, tuning).time_s
    name = "broadcast" if point.operation == "reduce" else point.operation
    if point.protocol:
        found = ways(name, group, point.size, tuning)
        taken = next(w for w in found if w.protocol.name == point.protocol)
    else:
        taken = chosen(name, group, point.size, tuning)
    other = point.other_sum and taken.protocol.name != "Simple"
    return taken.time_s + (tuning.other_sum_s if other else 0.0)


def errors(over: list[Point], values: Mapping[str, float]) -> list[float]:
    """ln(predicted / measured)."""
    tuning = tuning_of(trial(H200, {f"collective.{k}": v for k, v in values.items()}))
    return [math.log(predicted_s(p, tuning) / p.seconds) for p in over]


def start() -> dict[str, float]:
    """Where the search begins: NCCL's latencies."""
    values = {
        "LL.base_s": 5e-6,
        "LL.link_s": step_s(),
        "LL.share": 0.4,
        "LL128.base_s": 9e-6,
        "LL128.link_s": 1.9e-6,
        "LL128.share": 0.9,
        "Simple.base_s": 12e-6,
        "Simple.link_s": 3.4e-6,
        "other_sum.extra_s": 1.5e-6,
        "send_recv.extra_s": 6e-6,
        "send_recv.efficiency_2": 0.75,
        "exchange.efficiency_2": 0.6,
        "all_to_all.extra_s": 0.5e-6,
        "all_reduce.extra_s": 1e-6,
        "all_gather.extra_s": 0.5e-6,
        "rate.growth": 0.2,
        "pairs.growth": 0.3,
    }
    for operation in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"):
        values[f"{operation}.efficiency_2"] = values[f"{operation}.efficiency_4"] = 0.7
    return values


def fitted(train: list[Point], fixed: Mapping[str, float]) -> dict[str, float]:
    """Constants that fit best; the rate's growth last, which the shares would else take in."""

    def score(trying: Mapping[str, float]) -> float:
        if any(v > MOST_SHARE for n, v in trying.items() if ".efficiency_" in n):
            return math.inf
        return loss(errors(train, {**fixed, **trying}))

    values = start()
    free = [name for name in values if name != "LL.link_s"]
    names = [name for name in free if not name.endswith(".growth")]
    return fit(fit(values, score, names, 7), score, free, 7)


def main() -> int:
    """Fit, print, and with --write store constants."""
    fixed = {"protocols.measured": 1.0, "nvls.enabled": 0.0}
    all_points = [p for p in points() if p.size >= LEAST_BYTES]
    train = [p for p in all_points if not p.held_out]
    held = [p for p in all_points if p.held_out and p.size >= 1 << 16]
    values = fitted(train, fixed)
    found = errors(held, {**fixed, **values})
    sys.stdout.write(f"{len(train)} fitted: {summary(errors(train, {**fixed, **values}))}\n")
    sys.stdout.write(f"{len(held)} held out, from 64 KiB on: {summary(found)}\n")
    for name, value in values.items():
        sys.stdout.write(f"  {name:28s} {value:.5g}\n")
    if "--write" in sys.argv:
        _write(values, found)
    return 0


def _write(values: dict[str, float], found: list[float]) -> None:
    """Store them, with the shares for eight ranks that others measured."""
    old = dict(calibration_for(H200).entries)
    kept = {
        name.removeprefix("collective."): entry.value
        for name, entry in old.items()
        if name.startswith("collective.") and name.endswith("_8")
    }
    simple_s = values["Simple.base_s"] + 14 * values["Simple.link_s"]
    kept["all_reduce.efficiency_8"] = 1.75 * EIGHT_BYTES / (EIGHT_S - simple_s) / 450e9
    half = math.hypot(spread(found), ANOTHER_JOB)
    entries = {
        f"collective.{name}": CalibratedValue(
            value, "s" if name.endswith("_s") else "1", "calibrated", value, value
        )
        for name, value in {
            **values,
            **kept,
            "protocols.measured": 1.0,
            "measured.ranks": 4.0,
        }.items()
    }
    entries |= {n: e for n, e in old.items() if n.startswith("collective.nvls.efficiency")}
    entries["collective.scale"] = CalibratedValue(
        1.0,
        "1",
        "calibrated",
        1 - half,
        1 + half,
        f"measured over predicted, {len(found)} held-out points from 64 KiB on, 2 and 4 ranks",
    )
    path = CALIBRATIONS / H200.id / "collective.toml"
    entries |= {n: e for n, e in old.items() if n.startswith("collective.overlap.")}
    write_toml(path, MEASURED_WITH, entries)


if __name__ == "__main__":
    sys.exit(main())
