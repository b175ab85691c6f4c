"""Measure what `gpuscope bench` does not: bytes that libraries keep, and how power settles.

    python benchmarks/micro/run.py --out DIR [--only NAME ...]

Each part runs in a process of its own (first calls of libraries are what `memory` looks at), and
one that fails does not keep the next from running.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

PARTS = ("memory", "power_ramp")


def main() -> int:
    """Parse the command line and run the parts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=Path("micro-results"))
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.in_process:
        for name in args.only:
            importlib.import_module(name).run(args.out)
        return 0
    failed = []
    for name in args.only:
        command = [sys.executable, __file__, "--in-process", "--out", str(args.out), "--only", name]
        if subprocess.run(command, check=False).returncode != 0:
            failed.append(name)
    if failed:
        sys.stderr.write(f"failed: {', '.join(failed)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
