"""How long gpuscope takes for jobs of many ranks: whole processes, seconds and memory.

    python benchmarks/scale.py                # prints a table, writes results/scale.json

Each line is a whole `gpuscope predict`, Python's start and imports included. Limits are those that
the project set itself: 10 s for 8 GPUs, 15 s and 4 GB for 16,384. `cpu_s` is what the process
worked; `wall_s` is longer where the machine does other work, which `load` tells.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "scale.json"

CASES: tuple[tuple[str, str, float, float], ...] = (
    ("8B, FSDP, 8 GPUs", "llama-3.1-8b --task train --on 8xh200 --fsdp full", 10.0, 4.0),
    (
        "405B, tp 8, pp 16, dp 128, 16,384 GPUs",
        "llama-3.1-405b --task train --on 16384xh100 --tp 8 --pp 16 --dp 128 --global-batch 2048"
        " --seq 8192 --recompute selective",
        15.0,
        4.0,
    ),
)
"""Name, arguments of `gpuscope predict`, most seconds, most gigabytes."""


def measure(arguments: str) -> dict[str, float]:
    """Run one prediction as a process; seconds of the wall and the processor, peak gigabytes."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "gpuscope", "predict", *arguments.split(), "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - begin
    if status != 0:
        raise SystemExit(f"failed: {' '.join(command)}")
    return {
        "wall_s": round(wall_s, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "peak_gb": round(used.ru_maxrss * 1024 / 1e9, 3),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Measure all cases, print them, write them."""
    rows = []
    for name, arguments, most_s, most_gb in CASES:
        found = measure(arguments)
        rows.append(
            {"case": name, "arguments": arguments, "limit_s": most_s, "limit_gb": most_gb, **found}
        )
        print(
            f"{name:42} {found['wall_s']:6.1f} s wall {found['cpu_s']:6.1f} s cpu"
            f" {found['peak_gb']:6.2f} GB  (limits {most_s:g} s, {most_gb:g} GB)"
        )
    document = {"cpus": os.cpu_count(), "python": sys.version.split()[0], "rows": rows}
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
