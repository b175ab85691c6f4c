"""Whole-process time and memory of capturing built-in training steps.

Run: python benchmarks/capture.py [runs]

Each workload runs in a fresh Python, imports included, as a user's command does. Prints one JSON
object: seconds of the process, of the imports, of the capture and of the processor (which other
work on the machine disturbs less); peak resident memory; operators.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time

WORKLOADS = ("gpt2", "llama-3.1-8b", "llama-3.1-70b")

_CHILD = """
import json, resource, sys, time
started = time.perf_counter()
from gpuscope.program.fold import capture_workload
from gpuscope.program.workload import resolve
workload = resolve(sys.argv[1])
imported = time.perf_counter()
program = capture_workload(workload)
done = time.perf_counter()
print(json.dumps({
    "import_s": round(imported - started, 3),
    "capture_s": round(done - imported, 3),
    "process_cpu_s": round(time.process_time(), 3),
    "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    "operators": len(program.ops),
    "parameters": program.parameters,
}))
"""


def measure(name: str, runs: int) -> dict[str, float]:
    """The fastest of `runs` fresh processes."""
    best: dict[str, float] = {}
    for _ in range(runs):
        started = time.perf_counter()
        child = subprocess.run(
            [sys.executable, "-c", _CHILD, name], capture_output=True, text=True, check=True
        )
        process_s = round(time.perf_counter() - started, 3)
        if not best or process_s < best["process_s"]:
            best = {"process_s": process_s, **json.loads(child.stdout.splitlines()[-1])}
    return best


def main() -> None:
    """Measure all workloads."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    result = {
        "python": platform.python_version(),
        "cpus": len(os.sched_getaffinity(0)),
        "runs": runs,
        "workloads": {name: measure(name, runs) for name in WORKLOADS},
    }
    json.dump(result, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
