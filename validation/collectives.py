"""Recorded collectives against predicted ones: `python validation/collectives.py` (no GPU).

Two tables, written between their markers into `docs/accuracy.md` and `docs/accuracy.zh-CN.md`, and
every row into `validation/results/collectives.json`:

- by operation and ranks, from `collectives-4.jsonl` and `overlap-2.jsonl` (NCCL's own choice, NVLS
  off), from 64 KiB on; half of the sizes were fitted (`benchmarks/fit/collectives.py`), the other
  half is *held out*;
- inside programs that nothing was fitted to (`recordings/h200/distributed`): the calls' kernels,
  the shorter of both ranks of each call, so without waiting. What ran beside them slows them as
  `gpuscope.cost.overlap` says.

`--check` writes nothing and exits with 1 where the median over held-out sizes is above the target.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE.parent / "benchmarks" / "fit")]
DOCS = HERE.parent / "docs"
RESULTS = HERE / "results" / "collectives.json"
PROGRAMS = HERE / "recordings" / "h200" / "distributed"
TARGET = 0.10
LEAST_BYTES = 1 << 16
ITEM_BYTES = {"f32": 4, "bf16": 2, "f16": 2}
NAMES = {"AllReduce": "all_reduce", "ReduceScatter": "reduce_scatter"}
"""Kernels whose name says the type of their data; gathers and messages do not."""

KERNEL = re.compile(r"ncclDevKernel_(AllReduce|ReduceScatter)_(\w+?)_(f32|bf16|f16)_RING")


@dataclass(frozen=True)
class Row:
    """One recorded collective beside the prediction."""

    operation: str
    ranks: int
    nbytes: int
    measured_s: float
    predicted_s: float
    held_out: bool
    where: str = ""
    overlapped: float = 0.0

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_s / self.measured_s - 1


def alone() -> Iterator[Row]:
    """The benches' collectives."""
    from dataclasses import replace

    import collectives as fitted  # benchmarks/fit/collectives.py

    from gpuscope.cost.collective.ways import tuning_of
    from gpuscope.cost.registry import Constants
    from gpuscope.hardware import calibration_for

    tuning = replace(tuning_of(Constants(calibration_for(fitted.H200))), nvls=False)
    for point in fitted.points():
        if point.size >= LEAST_BYTES and not point.protocol:
            seconds = fitted.predicted_s(point, tuning)
            yield Row(
                point.operation, point.ranks, point.size, point.seconds, seconds, point.held_out
            )


def calls(path: Path) -> list[tuple[str, int, float, float]]:
    """(operation, bytes of the whole message, seconds, share beside compute) of a rank's calls."""
    with gzip.open(path, "rt", newline="") as stream:
        rows = list(csv.DictReader(stream))
    compute = [
        (float(r["start_us"]), float(r["start_us"]) + float(r["duration_us"]))
        for r in rows
        if "nccl" not in r["kernel"] and float(r["duration_us"]) > 0
    ]
    found = []
    for row in rows:
        match = KERNEL.match(row["kernel"])
        if match is None:
            continue
        shape = json.loads(row["shapes"])[0]
        while shape and isinstance(shape[0], list):
            shape = shape[0]
        start, length = float(row["start_us"]), float(row["duration_us"])
        beside = sum(max(0.0, min(b, start + length) - max(a, start)) for a, b in compute)
        found.append(
            (
                NAMES[match[1]],
                math.prod(shape) * ITEM_BYTES[match[3]],
                length * 1e-6,
                min(beside / length, 1.0),
            )
        )
    return found


def inside() -> Iterator[Row]:
    """Collectives of recorded programs, by program, operation and size."""
    from dataclasses import replace

    from gpuscope.cost.collective.ways import chosen, group_of, tuning_of
    from gpuscope.cost.registry import Constants
    from gpuscope.hardware import calibration_for, device, parse_target

    constants = Constants(calibration_for(device("h200")))
    tuning = replace(tuning_of(constants), nvls=False)
    slower = constants.value("collective.overlap.by_compute")
    group = group_of(parse_target("8xh200"), 2)
    for first in sorted(PROGRAMS.glob("*-2-rank0.csv.gz")):
        both = calls(first), calls(first.with_name(first.name.replace("rank0", "rank1")))
        if not both[0] or [c[:2] for c in both[0]] != [c[:2] for c in both[1]]:
            continue
        by_size: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for a, b in zip(*both, strict=True):
            by_size.setdefault(a[:2], []).append((min(a[2], b[2]), (a[3] + b[3]) / 2))
        for (operation, nbytes), times in by_size.items():
            if nbytes < LEAST_BYTES:
                continue
            share = median(t[1] for t in times)
            taken_s = chosen(operation, group, nbytes, tuning).time_s
            yield Row(
                operation,
                2,
                nbytes,
                median(t[0] for t in times),
                taken_s * (1 + slower * share),
                True,
                first.name.removesuffix("-2-rank0.csv.gz"),
                share,
            )


def by_operation(rows: Sequence[Row], zh: bool) -> list[str]:
    """A table: errors by operation and ranks."""
    head = (
        "| 操作 | rank 数 | 点数 | 误差中位数 | 未参与拟合 | 最差 | 16 MiB | 256 MiB |"
        if zh
        else "| operation | ranks | points | median error | held out | worst | 16 MiB | 256 MiB |"
    )
    lines = [head, "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for key in sorted({(r.operation, r.ranks) for r in rows}):
        mine = [r for r in rows if (r.operation, r.ranks) == key]
        held = [abs(r.error) for r in mine if r.held_out]
        at = [_at(mine, size) for size in (1 << 24, 1 << 28)]
        errors = [abs(r.error) for r in mine]
        lines.append(
            f"| {key[0]} | {key[1]} | {len(mine)} | {median(errors):.1%} | "
            f"{f'{median(held):.1%}' if held else '–'} | {max(errors):.0%} | {at[0]} | {at[1]} |"
        )
    return lines


def _at(rows: Sequence[Row], nbytes: int) -> str:
    """Measured and predicted at one size."""
    row = next((r for r in rows if r.nbytes == nbytes), None)
    return "–" if row is None else f"{row.measured_s * 1e6:.0f} → {row.predicted_s * 1e6:.0f} µs"


def by_program(rows: Sequence[Row], zh: bool) -> list[str]:
    """A table: each program's collectives."""
    head = (
        "| 程序 | 操作 | 消息 | 与计算重叠 | 实测 | 预测 | 误差 |"
        if zh
        else "| program | operation | message | beside compute | measured | predicted | error |"
    )
    lines = [head, "|---|---|---:|---:|---:|---:|---:|"]
    for row in sorted(rows, key=lambda r: (r.where, r.operation, r.nbytes)):
        lines.append(
            f"| {row.where} | {row.operation} | {row.nbytes / 2**20:.1f} MiB | "
            f"{row.overlapped:.0%} | {row.measured_s * 1e6:.0f} µs | "
            f"{row.predicted_s * 1e6:.0f} µs | {row.error:+.0%} |"
        )
    return lines


def summary(benches: Sequence[Row], programs: Sequence[Row], zh: bool) -> list[str]:
    """The two sentences above the tables."""
    every, held = _errors(benches, False), _errors(benches, True)
    real = [abs(r.error) for r in programs]
    met = "✓" if median(held) <= TARGET else "✗"
    if zh:
        return [
            f"64 KiB 起 {len(every)} 个点：误差中位数 {median(every):.1%}；其中 {len(held)} 个"
            f"未参与拟合：{median(held):.1%}（目标 ≤ {TARGET:.0%} {met}），"
            f"十分之九在 {_ninth(held):.0%} 以内。"
            f"真实程序中的 {len(real)} 组：{median(real):.1%}。"
        ]
    return [
        f"{len(every)} points from 64 KiB on: median error {median(every):.1%}; of the {len(held)} "
        f"held out {median(held):.1%} (target ≤ {TARGET:.0%} {met}), nine in ten within "
        f"{_ninth(held):.0%}. {len(real)} groups of calls inside programs: {median(real):.1%}."
    ]


def _errors(rows: Sequence[Row], held_only: bool) -> list[float]:
    return [abs(r.error) for r in rows if r.held_out or not held_only]


def _ninth(values: Sequence[float]) -> float:
    return sorted(values)[int(0.9 * len(values))]


def write(benches: Sequence[Row], programs: Sequence[Row]) -> None:
    """Put the tables between their markers, and all rows into the results."""
    from gpuscope.atomic import write_atomically

    for name, zh in (("accuracy.md", False), ("accuracy.zh-CN.md", True)):
        path = DOCS / name
        text = path.read_text()
        before, _, rest = text.partition("<!-- collectives -->")
        _, _, after = rest.partition("<!-- /collectives -->")
        if not rest:
            raise SystemExit(f"{name} has no markers for the collectives' tables.")
        lines = [
            *summary(benches, programs, zh),
            "",
            *by_operation(benches, zh),
            "",
            *by_program(programs, zh),
        ]
        table = "\n".join(lines)
        write_atomically(
            path, f"{before}<!-- collectives -->\n{table}\n<!-- /collectives -->{after}"
        )
    every = [
        {
            "operation": r.operation,
            "ranks": r.ranks,
            "bytes": r.nbytes,
            "where": r.where,
            "measured_s": r.measured_s,
            "predicted_s": r.predicted_s,
            "held_out": r.held_out,
            "beside_compute": r.overlapped,
        }
        for r in (*benches, *programs)
    ]
    write_atomically(RESULTS, json.dumps(every, indent=1) + "\n")


def main() -> int:
    """Print the tables; write them unless --check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    benches, programs = list(alone()), list(inside())
    sys.stdout.write(
        "\n".join(
            [
                *summary(benches, programs, False),
                "",
                *by_operation(benches, False),
                "",
                *by_program(programs, False),
                "",
            ]
        )
    )
    if args.check:
        return int(median(_errors(benches, True)) > TARGET)
    write(benches, programs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
