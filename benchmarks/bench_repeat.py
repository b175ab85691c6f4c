"""Do two runs of `gpuscope bench` on one machine agree? Each in a process of its own.

    python benchmarks/bench_repeat.py --quick --out benchmarks/results/bench_repeat.json

Arguments that are not known here (`--quick`, `--only`, `--device`) are passed on. The medians of
the families are compared; exit code 1 if one differs by more than 5 %.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path


def main() -> int:
    """Run it twice, compare, write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--keep", type=Path, default=Path("bench-repeat"), help="folder for both")
    args, passed = parser.parse_known_args()
    from gpuscope.measurement.bench.compare import NOISE_SHARE, compare_benches
    from gpuscope.measurement.bench.store import load_bench

    folders, took = [args.keep / "first", args.keep / "second"], []
    for folder in folders:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "gpuscope", "bench", *passed, "-o", str(folder)], check=True
        )
        took.append(time.perf_counter() - began)
    found = compare_benches(*(load_bench(folder) for folder in folders))
    rows = [
        {"family": g.name, "points": g.points, "ratio": g.ratio, "low": g.low, "high": g.high}
        for g in found.families
    ]
    worst = max((abs(row["ratio"] - 1) for row in rows), default=0.0)
    for row in rows:
        sys.stdout.write(f"{row['family']:36} {row['points']:5} points  {row['ratio']:.4f}\n")
    sys.stdout.write(
        f"worst family {worst:.2%}, {len(found.outliers)} single points stand out; "
        f"processes took {took[0]:.1f} and {took[1]:.1f} s\n"
    )
    if args.out is not None:
        machine = {k: v for k, v in found.machines[0].items() if k not in ("host", "uuid")}
        document = {
            "limit": NOISE_SHARE,
            "worst": worst,
            "process_s": took,
            "arguments": passed,
            "outliers": len(found.outliers),
            "machine": machine,
            "families": rows,
        }
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if worst <= NOISE_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
