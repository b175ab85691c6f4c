"""Other devices' kernels with constants carried from the others alone.

    python benchmarks/fit/leave_one_out.py TABLES/aiconfigurator_core/systems --write
        [--operators NeuSight/scripts/asplos/data]

For each device of the published tables (`published.py`, `left_out_operators.py`,
`published_tpu.py`) its own constants are taken away, and its kernels predicted with what gpuscope
would then carry to it from the devices that are left: the H200's constants by physics, and over
them those of the nearest device of its generation. The H200 itself keeps what no table holds
(bandwidths, host) and gets its products from the others. Points are those that judge the fits:
products in bfloat16 and float32, elementwise steps, softmax and layer norms, long prefills and
decodes where PyTorch's own attention kernel was used, collectives inside a node. Left out are times
that hold more than the kernels that PyTorch would run (products in float8 with their quantising,
fused layers of experts, latent attention), and devices that are in no catalogue (B60, P100, P4).
"""

from __future__ import annotations

import json
import math
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import left_out_operators
import published
import published_attention
import published_collectives as nccl
import published_tpu
import pyarrow.parquet as parquet
from recorded import at_clock

from gpuscope.cost.collective.ways import tuning_of
from gpuscope.cost.engine import (
    COMMON_SPREAD,
    PRIOR_SPREAD,
    SYSTEMATIC_SPREAD,
    SYSTEMATIC_SPREAD_CARRIED,
)
from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.cost.types import Kernel
from gpuscope.hardware import CalibratedValue, Calibration, Device, device
from gpuscope.hardware import calibration as calibrations
from gpuscope.measurement.calibrate.product_operators import dense
from gpuscope.program.types import Op

RESULTS = Path(__file__).resolve().parents[1] / "results" / "leave_one_out.json"
HOME = published.DEVICES[published.HOME]
TABLED = ("matmul.", "attention.", "collective.")
"""Constants that the tables hold something about."""

Judged = tuple[float, float, float, float]
"""Measured, predicted, low, high (seconds)."""


def without(target: Device) -> Calibration:
    """What a device gets when nothing is known of its own kernels."""
    if target.id != HOME:
        with tempfile.TemporaryDirectory() as folder:
            for path in calibrations.CALIBRATIONS.iterdir():
                if path.name.removesuffix(".toml") != target.id:
                    (Path(folder) / path.name).symlink_to(path)
            return calibrations._calibration_for(target, Path(folder))
    known = dict(calibrations._catalogued(calibrations.CALIBRATIONS))
    home = known.pop(HOME)
    entries: dict[str, CalibratedValue] = {}
    for each in reversed(calibrations._relatives(target, known)):
        entries.update(each.entries)
    entries.update((n, e) for n, e in home.entries if not n.startswith(TABLED))
    return replace(home, entries=tuple(sorted(entries.items())))


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


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A device with the constants that the others lend it, and what its intervals add to a call's.

    Attributes:
        target: the device.
        constants: lent.
        common, own: relative half-widths of what all kernels share, and of one kind's.
    """

    target: Device
    constants: Constants
    common: float
    own: float

    @classmethod
    def of(cls, target: Device) -> LeftOut:
        """Take a device's own constants away."""
        calibration = without(target)
        constants = Constants(calibration)
        prior = calibration.evidence == "prior"
        common = PRIOR_SPREAD if prior else COMMON_SPREAD.get(calibration.distance, 0.0)
        own = SYSTEMATIC_SPREAD if constants.calibrated else SYSTEMATIC_SPREAD_CARRIED
        if constants.known("device.scale"):
            own = constants.spread("device.scale")
        return cls(target, constants, common, own)

    def judged(self, seconds: float, kernels: Sequence[Kernel]) -> Judged:
        """A call beside what was measured."""
        return (seconds, *interval(kernels, self.common, self.own))


def products(systems: Path, folder: str, out: LeftOut, gap_s: float) -> Iterator[Judged]:
    """Products of the half that judges."""
    table = published.read_table(systems, folder, "bfloat16", gap_s)
    for case in table.held if table else ():
        kernels = case.kernels(at_clock(out.target, 1.0), out.constants)
        yield out.judged(case.recorded.total_s, kernels)


def prefills(systems: Path, folder: str, out: LeftOut) -> Iterator[Judged]:
    """Long prefills by FlashAttention-2."""
    for width in published_attention.WIDTHS:
        points = published_attention.read(systems, folder, width)
        for op, seconds in points[1::2] if len(points) >= 100 else ():
            yield out.judged(seconds, published_attention.kernels(op, out.target, out.constants))


def decodes(systems: Path, folder: str, out: LeftOut) -> Iterator[Judged]:
    """One token a sequence against a long cache, in bfloat16 by FlashAttention: the cache's bytes."""
    files = sorted(
        (systems / "data" / folder / "attention" / "vllm").glob("*/generation_*.parquet")
    )
    if not files:
        return
    rows = [
        r
        for r in parquet.read_table(files[-1]).to_pylist()
        if r["kv_cache_dtype"] == "bfloat16"
        and "flash_attn" in r["kernel_source"]
        and not (r.get("window_size") or 0)
        and r["head_dim"] in published_attention.WIDTHS
        and r["latency"] > SHORTEST_DECODE_MS
    ]
    model = model_for("gpuscope::attention")
    assert model is not None
    for r in random.Random(0).sample(rows, min(DECODES, len(rows))):
        heads = r["num_key_value_heads"] or r["num_heads"]
        q = dense(r["batch_size"], r["num_heads"], 1, r["head_dim"], dtype="bfloat16")
        length = r["isl"] + r["step"]
        k = dense(r["batch_size"], heads, length, r["head_dim"], dtype="bfloat16")
        args = {"causal": False, "backend": "flash"}
        op = Op(0, "gpuscope::attention", inputs=(q, k, k), outputs=(q,), args=args)
        work = Work(op, out.target, out.constants, (), (False,) * 3)
        yield out.judged(r["latency"] * 1e-3, model(work))


SHORTEST_DECODE_MS = 0.1
"""Below it the writing of the new keys, which is in the tables' times, would count."""

DECODES = 400
"""Drawn of each device's tables."""


def operators(folder: Path) -> Iterator[tuple[str, Device, dict[str, list[Judged]]]]:
    """Devices of NeuSight's tables: name there, device, its calls by family."""
    for name, calls in left_out_operators.rows(folder).items():
        if name not in left_out_operators.DEVICES:
            continue
        target = left_out_operators.target_of(name)
        out, found = LeftOut.of(target), defaultdict(list)
        for family, case in left_out_operators.cases(calls):
            kernels = case.kernels(at_clock(target, 1.0), out.constants)
            found[family].append(out.judged(case.recorded.total_s, kernels))
        yield name, target, found


def core_of_google() -> Iterator[tuple[str, list[Judged]]]:
    """Products and copies of one core of a TPU7x, with the constants of other devices."""
    core = published_tpu.core(device("google-tpu-v7"))
    out = LeftOut.of(core)
    seconds = {n: 2e-12 * n**3 / rate for n, rate in published_tpu.TPU7X_TFLOPS.items()}
    moved = {n: 2e-9 * n / rate for n, rate in published_tpu.TPU7X_GBPS.items()}
    for kind, calls in (
        ("products", published_tpu.products(seconds)),
        ("copies", published_tpu.copies(moved)),
    ):
        yield (
            kind,
            [
                out.judged(c.recorded.total_s, c.kernels(at_clock(core, 1.0), out.constants))
                for c in calls
            ],
        )


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
    "decode": ("attention, decode", "注意力解码"),
    "collectives": ("collectives in a node", "节点内集合通信"),
    "matmul": ("products, float32", "矩阵乘法，float32"),
    "pointwise": ("elementwise, float32", "逐元素，float32"),
    "softmax": ("softmax, float32", "softmax，float32"),
    "normalization": ("layer norm, float32", "层归一化，float32"),
    "copies": ("copies", "拷贝"),
}


def run(systems: Path, neusight: Path | None) -> dict[str, dict[str, object]]:
    """Every device and kind that has points."""
    gap_s = published.graph_gap_s(systems)
    found: dict[str, dict[str, object]] = {}
    for folder, device_id in published.DEVICES.items():
        out = LeftOut.of(device(device_id))
        parts = {"products": list(products(systems, folder, out, gap_s))}
        if folder in published_attention.DEVICES:
            parts["prefill"] = list(prefills(systems, folder, out))
            parts["decode"] = list(decodes(systems, folder, out))
        if folder in nccl.DEVICES:
            parts["collectives"] = list(messages(systems, folder, out.target))
        found |= _rows(out.target, parts)
    for name, target, parts in operators(neusight) if neusight else ():
        told = replace(target, name=f"{target.name} ({name})") if name in RENAMED else target
        found |= _rows(told, parts)
    return found | _rows(device("google-tpu-v7"), dict(core_of_google()))


RENAMED = ("Tesla V100-PCIE-32GB",)
"""Boards that stand for another of the catalogue."""


def _rows(target: Device, parts: dict[str, list[Judged]]) -> dict[str, dict[str, object]]:
    rows: dict[str, dict[str, object]] = {}
    for kind, judged in parts.items():
        if judged:
            row, (en, zh) = figures(judged), KINDS[kind]
            rows[f"{target.id} {kind}"] = {
                "device": target.name,
                "kind": en,
                "kind_zh": zh,
                "from": source_of(target),
                **row,
            }
            sys.stdout.write(f"{target.id:30s} {kind:12s} from {source_of(target):22s} {row}\n")
            sys.stdout.flush()
    return rows


def main() -> int:
    """Judge every device, print, and with --write store the errors."""
    parser = published.parser(__doc__)
    parser.add_argument("--operators", type=Path, help="NeuSight's folder scripts/asplos/data")
    args = parser.parse_args()
    found = run(args.systems, args.operators)
    if args.write:
        RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
