"""Processor time and memory of `gpuscope serve`: `python benchmarks/serve_speed.py [--write]`.

Each load in a process of its own, with numba's compiled code kept from a run before (it is made
once). Wall time is not told: it says more of what else a machine does. The table is in
docs/serve.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results" / "serve_speed.json"

LOADS: dict[str, list[str]] = {
    "30/s, 1,000": ["--rate", "30", "--requests", "1000"],
    "30/s, 100,000": ["--rate", "30", "--requests", "100000"],
    "256 in flight, 100,000": ["--concurrency", "256", "--requests", "100000"],
    "30/s, 1,000,000": ["--rate", "30", "--requests", "1000000"],
    "1 to 256 in flight, nine runs of 1,000": ["--concurrency", "1,2,4,8,16,32,64,128,256"],
}
"""Of Llama-3.1-8B on an H200, prompts and answers of 200 tokens."""


def cost_of(load: list[str]) -> dict[str, Any]:
    """Processor seconds and MB of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "gpuscope", "serve", "llama-3.1-8b", "--on", "h200"]
    command += ["--input", "200", "--answer", "200", "--quiet", *load]
    code = (
        "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], "
        "stdout=subprocess.DEVNULL); "
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, *command], check=True, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    ).stdout.split()  # fmt: skip
    if told[0] != "0":
        raise SystemExit(f"{load}: exit code {told[0]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"processor_s": round(used, 2), "memory_mb": round(int(told[1]) / 1024)}


def main() -> None:
    """All loads."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    cost_of(LOADS["30/s, 100,000"])  # compiles
    found = {name: cost_of(load) for name, load in LOADS.items()}
    print(json.dumps(found, indent=1))
    if options.write:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
