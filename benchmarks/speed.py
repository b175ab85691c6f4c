"""Whole-process speed of gpuscope: `python benchmarks/speed.py [--write]`.

Each command runs in a fresh process, three times; the best wall time and the largest memory count.
Modules are compiled once, as an installed package has them, also under PYTHONDONTWRITEBYTECODE.
Machines are noisy: compare runs made one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GPUSCOPE = [sys.executable, "-m", "gpuscope"]

CASES: dict[str, tuple[list[str], float]] = {
    "help": (["--help"], 0.3),
    "gpt2 training step": (
        ["predict", "gpt2", "--task", "train", "--on", "h200", "--json", "--quiet"],
        4.0,
    ),
    "resnet50 training step (no transformers)": (
        ["predict", "resnet50", "--task", "train", "--on", "h200", "--json", "--quiet"],
        4.0,
    ),
    "llama-3.1-8b training step": (
        ["predict", "llama-3.1-8b", "--task", "train", "--on", "h200", "--json", "--quiet"],
        6.0,
    ),
    "llama-3.1-70b training step": (
        ["predict", "llama-3.1-70b", "--task", "train", "--on", "h200", "--json", "--quiet"],
        8.0,
    ),
    "llama-3.1-8b decode on four devices": (
        [
            "predict",
            "llama-3.1-8b",
            "--task",
            "decode",
            "--on",
            "h100,h200,mi300x,rtx-4090",
            "--json",
            "--quiet",
        ],
        8.0,
    ),
    "analyze a recorded trace of 9,000 events": (
        ["analyze", "tests/data/traces/h200/host_bound/rank-0.json.gz", "--json"],
        1.0,
    ),
}


def run(arguments: list[str]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds, peak memory in bytes of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(
        [*GPUSCOPE, *arguments], check=True, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment
    )
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, after.ru_maxrss * 1024.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write results/speed.json")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    results = []
    for name, (arguments, target) in CASES.items():
        times = [run(arguments) for _ in range(args.repeat)]
        row = {
            "case": name,
            "wall_s": round(min(t[0] for t in times), 3),
            "processor_s": round(min(t[1] for t in times), 3),
            "target_s": target,
            "peak_memory_bytes_so_far": max(t[2] for t in times),
        }
        results.append(row)
        print(json.dumps(row), flush=True)
    if args.write:
        out = ROOT / "benchmarks" / "results" / "speed.json"
        out.parent.mkdir(exist_ok=True)
        load = os.getloadavg()[0]
        out.write_text(
            json.dumps({"cores": os.cpu_count(), "load_after": load, "rows": results}, indent=1)
            + "\n"
        )


if __name__ == "__main__":
    main()
