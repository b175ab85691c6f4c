"""Other devices' kernels with constants carried from the others alone.

    python benchmarks/fit/leave_one_out.py TABLES/aiconfigurator_core/systems [--write]

For each device of the published tables (see `published.py`) its own constants are taken away, and
its kernels predicted with what gpuscope would then carry to it from the devices that are left: the
H200's constants by physics, and over them those of the nearest device of its generation. The H200
itself keeps what no table holds (bandwidths, host) and gets its products from the others. Points are
those that judge the fits: products in bfloat16, long prefills where PyTorch's own attention kernel
was used, collectives inside a node.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import published
import published_attention
import published_collectives as nccl
from recorded import Case, at_clock

from gpuscope.cost.collective_ways import tuning_of
from gpuscope.cost.engine import COMMON_SPREAD
from gpuscope.cost.registry import Constants
from gpuscope.cost.types import Kernel
from gpuscope.hardware import CalibratedValue, Calibration, Device, device
from gpuscope.hardware import calibration as calibrations

RESULTS = Path(__file__).resolve().parents[1] / "results" / "leave_one_out.json"
HOME = published.DEVICES[published.HOME]
TABLED = ("matmul.", "attention.", "collective.")
"""Constants that the tables hold something about."""

Judged = tuple[float, float, float, float]
"""Measured, predicted, low, high (seconds)."""


def without(target: Device) -> Calibration:
    """What a device gets when nothing is known of its own kernels."""
    known = dict(calibrations._catalogued(calibrations.CALIBRATIONS))
    home = known.pop(HOME)
    known.pop(target.id, None)
    if target.id == HOME:
        kept = tuple((n, e) for n, e in home.entries if not n.startswith(TABLED))
        home = replace(home, entries=kept)
    lenders = calibrations._relatives(target, {**known, HOME: home})
    entries: dict[str, CalibratedValue] = {}
    for each in reversed(lenders):
        entries.update(each.entries)
    whole = next(each for each in lenders if each.names("host"))
    return replace(whole, entries=tuple(sorted(entries.items())))


def source_of(target: Device) -> str:
    """Which device's products it gets."""
    known = dict(calibrations._catalogued(calibrations.CALIBRATIONS))
    known.pop(target.id, None)
    lenders = calibrations._relatives(target, known)
    found = next(each for each in lenders if each.names("matmul"))
    return found.measured_on or HOME


def interval(kernels: Sequence[Kernel], common: float, own: float) -> tuple[float, float, float]:
    """Predicted, low and high of one call, as `timeline.uncertainty` puts them together."""
    seconds = sum(k.duration_s for k in kernels)
    below = math.hypot(sum(k.duration_s - k.low_s for k in kernels) / seconds, common, own)
    above = math.hypot(sum(k.high_s - k.duration_s for k in kernels) / seconds, common, own)
    return seconds, seconds * max(0.0, 1 - below), seconds * (1 + above)


def products(systems: Path, folder: str, target: Device, gap_s: float) -> Iterator[Judged]:
    """Products of the half that judges."""
    table = published.read_table(systems, folder, "bfloat16", gap_s)
    if table is None:
        return
    calibration = without(target)
    constants = Constants(calibration)
    common = COMMON_SPREAD.get(calibration.distance, 0.0)
    own = constants.spread("device.scale", 0.2)
    case: Case
    for case in table.held:
        kernels = case.kernels(at_clock(target, 1.0), constants)
        yield (case.recorded.total_s, *interval(kernels, common, own))


def prefills(systems: Path, folder: str, target: Device) -> Iterator[Judged]:
    """Long prefills by FlashAttention-2."""
    calibration = without(target)
    constants = Constants(calibration)
    common = COMMON_SPREAD.get(calibration.distance, 0.0)
    own = constants.spread("device.scale", 0.2)
    for width in published_attention.WIDTHS:
        points = published_attention.read(systems, folder, width)
        for op, seconds in points[1::2] if len(points) >= 100 else ():
            kernels = published_attention.kernels(op, target, constants)
            yield (seconds, *interval(kernels, common, own))


def messages(systems: Path, folder: str, target: Device) -> Iterator[Judged]:
    """Collectives; the interval is not the model's own (that of a whole job), so there is none."""
    tuning = tuning_of(Constants(without(target)))
    points = nccl.read(systems, folder)[1::2]
    for (_, _, _, seconds), error in zip(
        points, nccl.errors(target.id, points, tuning), strict=True
    ):
        yield seconds, seconds * math.exp(error), math.nan, math.nan


def figures(judged: Sequence[Judged]) -> dict[str, float | int | None]:
    """Errors, coverage and width."""
    errors = sorted(abs(p / m - 1) for m, p, _, _ in judged)
    bounded = [j for j in judged if not math.isnan(j[2])]
    return {
        "points": len(judged),
        "median": round(median(errors), 4),
        "mean": round(sum(errors) / len(errors), 4),
        "bias": round(median(p / m - 1 for m, p, _, _ in judged), 4),
        "coverage": round(sum(lo <= m <= hi for m, _, lo, hi in bounded) / len(bounded), 3)
        if bounded
        else None,
        "width": round(median((hi - lo) / p for _, p, lo, hi in bounded), 3) if bounded else None,
    }


KINDS = {
    "products": ("products", "矩阵乘法"),
    "prefill": ("attention, prefill", "注意力预填充"),
    "collectives": ("collectives in a node", "节点内集合通信"),
}


def run(systems: Path) -> dict[str, dict[str, object]]:
    """Every device and kind that has points."""
    gap_s = published.graph_gap_s(systems)
    found: dict[str, dict[str, object]] = {}
    for folder, device_id in published.DEVICES.items():
        target = device(device_id)
        parts = {"products": list(products(systems, folder, target, gap_s))}
        if folder in published_attention.DEVICES:
            parts["prefill"] = list(prefills(systems, folder, target))
        if folder in nccl.DEVICES:
            parts["collectives"] = list(messages(systems, folder, target))
        for kind, judged in parts.items():
            if judged:
                row = figures(judged)
                en, zh = KINDS[kind]
                found[f"{device_id} {kind}"] = {
                    "device": target.name,
                    "kind": en,
                    "kind_zh": zh,
                    "from": source_of(target),
                    **row,
                }
                sys.stdout.write(f"{device_id:30s} {kind:12s} from {source_of(target):22s} {row}\n")
    return found


def main() -> int:
    """Judge every device, print, and with --write store the errors."""
    args = published.arguments(__doc__)
    found = run(args.systems)
    if args.write:
        RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
