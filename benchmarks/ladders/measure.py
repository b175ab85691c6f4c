"""Measure ladder scripts as they are: each in a process of its own.

    python benchmarks/ladders/measure.py expert/resnet50 naive/gpt2 --out measured.jsonl

Every line of the result: name, median step, its 95 % interval, peak memory, seconds it took.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def measured(name: str, seconds: float, limit_s: float) -> dict[str, object]:
    """One script's step, or why there is none."""
    command = [
        sys.executable, "-m", "gpuscope", "measure", f"{HERE / name}.py:build", "--json",
        "--no-profile", "--seconds", str(seconds),
    ]  # fmt: skip
    begin = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return {"name": name, "error": f"longer than {limit_s:.0f} s"}
    took = round(time.perf_counter() - begin, 1)
    if done.returncode:
        return {"name": name, "error": done.stderr.strip()[-600:], "seconds": took}
    run = json.loads(done.stdout)
    run = run.get("runs", [run])[0]
    keys = ("step_time_s", "step_time_interval_s", "peak_memory_bytes", "energy_j")
    return {"name": name, **{key: run.get(key) for key in keys}, "seconds": took}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--limit", type=float, default=150)
    given = parser.parse_args()
    for name in given.names:
        row = json.dumps(measured(name, given.seconds, given.limit))
        print(row, flush=True)
        if given.out:
            with given.out.open("a") as out:
                out.write(row + "\n")


if __name__ == "__main__":
    main()
