"""Products of bfloat16 by whether their depth is odd, even or a multiple of 8: measured, predicted.

    python benchmarks/odd_depth.py --measure    # on a GPU; writes results/odd_depth.json
    python benchmarks/odd_depth.py              # what an H200 took, beside predictions

Rows that do not start at multiples of 16 bytes are loaded in pieces of 4 or 2, by kernels of an
older generation (CUTLASS' "align2" and "align1"). Each time is one of 50 products in a CUDA graph,
the gap between two kernels included.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests/cost")]
RESULTS = Path(__file__).resolve().parent / "results" / "odd_depth.json"

SIDES = (64, 256, 512, 1024, 2048)
DEPTHS = (33, 64, 66, 127, 128, 254, 255, 256, 510, 511, 512, 1026, 1027)
COUNT = 50


def measured_s(side: int, depth: int) -> float:
    """Seconds of one product [side, depth] x [depth, side]: the least of five replays."""
    import torch

    a = torch.randn(side, depth, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(depth, side, device="cuda", dtype=torch.bfloat16)
    for _ in range(3):
        a @ b
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(COUNT):
            a @ b
    times = []
    for _ in range(6):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / COUNT * 1e-3)
    return min(times[1:])


def predicted_s(side: int, depth: int) -> float:
    """The same on an H200, as the kernel model has it."""
    from matmul_work import dense, run

    import gpuscope.cost.engine  # noqa: F401 - registers the kernel models

    kernels = run(
        "aten::mm", (dense(side, depth), dense(depth, side)), (dense(side, side),), hot=True
    )
    return sum(kernel.duration_s for kernel in kernels)


def _kind(depth: int) -> str:
    return "odd" if depth % 2 else ("a multiple of 8" if depth % 8 == 0 else "even")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    if parser.parse_args().measure:
        rows = [
            {"m": side, "n": side, "k": depth, "seconds": measured_s(side, depth)}
            for side in SIDES
            for depth in DEPTHS
        ]
        RESULTS.write_text(json.dumps(rows))
    errors: dict[str, list[float]] = {}
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text())
    for row in rows:
        predicted = predicted_s(row["m"], row["k"])
        error = predicted / row["seconds"] - 1
        errors.setdefault(_kind(row["k"]), []).append(abs(error))
        print(
            f"{row['m']:5} x {row['k']:5} measured {row['seconds'] * 1e6:6.2f} µs, predicted"
            f" {predicted * 1e6:6.2f} ({error:+.0%})"
        )
    for kind, found in errors.items():
        print(
            f"depth {kind}: {len(found)} products, median error {statistics.median(found):.0%},"
            f" largest {max(found):.0%}"
        )


if __name__ == "__main__":
    main()
