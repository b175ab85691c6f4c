"""Measure ladder scripts as they are: each in a process of its own.

    python benchmarks/ladders/measure.py expert/resnet50 naive/gpt2 --out measured.jsonl
    python benchmarks/ladders/measure.py expert/ddp_gpt2 --gpus 2 --out measured.jsonl

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
        sys.executable,
        "-m",
        "gpuscope",
        "measure",
        f"{HERE / name}.py:build",
        "--json",
        "--no-profile",
        "--seconds",
        str(seconds),
    ]
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


def measured_on_several(name: str, gpus: int, limit_s: float) -> dict[str, object]:
    """A distributed script's step, one process a GPU, as `gpuscope optimize` measures the original.

    Its interval is that of the blocks' median.
    """
    from gpuscope.advice.results import Limits, Target
    from gpuscope.advice.trial.trials import Trials
    from gpuscope.errors import GpuscopeError

    target = Target("build", f"{HERE / name}.py:build")
    begin = time.perf_counter()
    try:
        with Trials(target, Limits(limit_s), processes=gpus) as trials:
            found = trials.baseline()
    except GpuscopeError as error:
        return {"name": name, "error": f"{error.what} {error.why}"[-600:]}
    return {
        "name": name,
        "step_time_s": found.step_s,
        "step_time_interval_s": [found.low_s, found.high_s],
        "peak_memory_bytes": found.peak_memory_bytes,
        "energy_j": found.energy_j,
        "seconds": round(time.perf_counter() - begin, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--limit", type=float, default=240)
    parser.add_argument("--gpus", type=int, default=1)
    given = parser.parse_args()
    for name in given.names:
        found = (
            measured(name, given.seconds, given.limit)
            if given.gpus == 1
            else measured_on_several(name, given.gpus, given.limit)
        )
        row = json.dumps(found)
        print(row, flush=True)
        if given.out:
            with given.out.open("a") as out:
                out.write(row + "\n")


if __name__ == "__main__":
    main()
