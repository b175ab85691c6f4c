"""Recorded compiled kernels beside the ones that gpuscope predicts for the same functions.

`python benchmarks/fit/compiled_points.py FILE` says how far they are off. Reads what
`benchmarks/compiled_kernels.py` wrote (validation/recordings/h200/micro/compiled*.jsonl.gz),
captures each case as a compiled program, and joins kernels in order where their number agrees.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "src"), str(HERE.parent)]

from compiled_cases import Case, make  # noqa: E402


@dataclass(frozen=True)
class Point:
    """One kernel: as recorded, and as predicted."""

    case: Case
    part: str
    state: str
    recorded: dict[str, Any]
    op: Any
    kernel: Any


def rows_of(path: Path) -> list[dict[str, Any]]:
    text = path.read_bytes()
    text = gzip.decompress(text) if path.suffix == ".gz" else text
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def captured(case: Case) -> Any:
    """The compiled program of a case."""
    import torch

    from gpuscope.program.capture import capture

    def build() -> Any:
        run, given = make(case, "cuda")
        compiled = torch.compile(run)
        wanted = [t for t in given if t.requires_grad]

        def step() -> None:
            out = compiled(*given)
            outs = out if isinstance(out, tuple) else (out,)
            if case.backward:
                outs = [o for o in outs if o.requires_grad]
                ones = [torch.empty_like(o) for o in outs]
                kept = torch.autograd.grad(outs, wanted, ones, allow_unused=True)
                del kept

        return step

    return capture(build, name=case.name)


def points(path: Path, device: Any, calibration: Any = None) -> Iterator[Point | str]:
    """Joined kernels; a sentence where the numbers of kernels differ."""
    from gpuscope.cost.engine import cost_program
    from gpuscope.program.fusion import fuse

    known: dict[str, Any] = {}
    for row in rows_of(path):
        if row["bench"] != "kernel" or row["case"] == "adamw":
            continue
        backward = _has_backward(path, row)
        case = Case(row["case"], row["mib"], row["params"], backward)
        key = repr(case)
        if key not in known:
            fused = fuse(captured(case))
            known[key] = cost_program(fused, device, calibration)
        phase = row["part"]
        kernels = [
            (c.op, k)
            for c in known[key].ops
            if c.op.region
            for k in c.kernels
            if (c.op.phase == "backward") == (phase == "backward")
        ]
        if len(kernels) != len(row["kernels"]):
            yield (
                f"{case.name} {case.mib} {case.params} {phase}: recorded"
                f" {[k['name'][:60] for k in row['kernels']]}, predicted"
                f" {[k.name[:60] for _, k in kernels]}"
            )
            continue
        for recorded, (op, kernel) in zip(row["kernels"], kernels, strict=True):
            yield Point(case, phase, row["state"], recorded, op, kernel)


def _has_backward(path: Path, row: dict[str, Any]) -> bool:
    same = (row["case"], row["mib"], row["params"])
    return any(
        r["bench"] == "kernel"
        and r["part"] == "backward"
        and (r["case"], r["mib"], r["params"]) == same
        for r in rows_of(path)
    )


def summary(path: Path) -> str:
    """How far the sums of each function's generated kernels are off."""
    from collections import defaultdict

    from gpuscope.hardware import device

    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for point in points(path, device("h200")):
        if isinstance(point, str):
            print("other kernels:", point)
            continue
        held = sums[f"{point.case} {point.part} {point.state}"]
        held[0] += point.recorded["median_us"]
        held[1] += point.kernel.duration_s * 1e6
    for name, (recorded, predicted) in sums.items():
        print(f"{recorded:9.2f} us {predicted:9.2f} {predicted / recorded - 1:+6.0%}  {name}")
    off = sorted(abs(predicted / recorded - 1) for recorded, predicted in sums.values())
    return (
        f"{len(off)} functions: mean {sum(off) / len(off):.1%}, median {off[len(off) // 2]:.1%},"
        f" 80 % within {off[int(0.8 * len(off))]:.1%}"
    )


if __name__ == "__main__":
    print(summary(Path(sys.argv[1])))
