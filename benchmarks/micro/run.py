"""Measure kernel, host, copy, power and memory constants of the machine at hand.

    python benchmarks/micro/run.py --out DIR [--only NAME ...] [--quick] [--budget-s 500]

Families run in order of importance, each in a stage of its own process, and save as they go; what
the time budget leaves out is listed in ``progress.json``.  ``--dry-run`` runs every kernel point
on fake tensors, without a GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

STAGES: tuple[tuple[str, ...], ...] = (
    ("facts", "host", "launch"),
    ("matmul", "attention", "pointwise", "reduction", "convolution", "optimizers", "gather",
     "transfers", "recurrent"),
    ("memory",),
    ("power",),
    ("convolution_benchmark",),
)  # fmt: skip
"""Processes in order; a family that fails does not keep the next from running."""
KERNEL_FAMILIES = (*STAGES[1], "convolution_benchmark")
SMALL_CHUNKS = {"optimizers": 30, "recurrent": 24}
"""Points per profiler session where one call makes thousands of kernels."""
REST = {"matmul": 1.5, "attention": 1.0, "convolution": 1.0, "convolution_benchmark": 1.0}
"""Rest, as a multiple of the work, in families that would otherwise reach the power limit."""
RESERVE_S = {"memory": 30.0, "power": 75.0}
"""Time that the kernel families leave for what runs after them."""


def _log(out: Path, **entry: object) -> None:
    with (out / "progress.json").open("a") as stream:
        stream.write(json.dumps({"t": round(time.time(), 1), **entry}) + "\n")
    sys.stderr.write(f"{entry}\n")


def _family(
    name: str, out: Path, quick: bool, deadline_s: float, back_to_back: bool
) -> dict[str, object]:
    """Run one family in this process; returns what to log."""
    if name in KERNEL_FAMILIES:
        import importlib

        from harness import CHUNK_POINTS, Family, Recorder

        points = importlib.import_module(name).points
        family = Family(name, points, SMALL_CHUNKS.get(name, CHUNK_POINTS))
        family.rest = 0.0 if back_to_back else REST.get(name, 0.0)
        done, left = Recorder(out, deadline_s).run(family, quick)
        return {"points": done, "left": left, "errors": len(family.errors)}
    if name == "facts":
        from facts import write_facts

        write_facts(out)
    elif name == "host":
        import host

        return {"rows": len(host.run(out).rows)}
    elif name == "launch":
        import launch

        launch.run(out)
    elif name == "power":
        import power

        power.run(out, 0.5 if quick else 1.5)
    elif name == "memory":
        import memory

        memory.run(out)
    else:
        raise SystemExit(f"unknown family {name!r}; one of {[n for s in STAGES for n in s]}")
    return {}


def _work(names: list[str], out: Path, quick: bool, deadline_s: float, back_to_back: bool) -> int:
    for name in names:
        began = time.time()
        if began > deadline_s:
            _log(out, family=name, status="no time left")
            continue
        try:
            result = _family(name, out, quick, deadline_s, back_to_back)
            _log(out, family=name, status="done", seconds=round(time.time() - began, 1), **result)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"[:500]
            _log(out, family=name, status="failed", error=text)
            if "CUDA error" in text:
                return 3
    return 0


def _dry_run(names: list[str]) -> int:
    """Run each kernel point once on fake tensors; prints counts and what fails."""
    import importlib

    import torch

    failures = 0
    for name in names:
        count = 0
        for point in importlib.import_module(name).points(False):
            count += 1
            try:
                point.make("meta")()
            except Exception as error:
                failures += 1
                sys.stdout.write(f"{point.bench} {dict(point.params)}: {error!r}\n"[:300] + "\n")
        sys.stdout.write(f"{name}: {count} points\n")
    del torch
    return failures


def main() -> int:
    """Parse the command line and run the stages."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=Path("micro-results"))
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--back-to-back", action="store_true", help="no rests: clocks as under sustained load"
    )
    parser.add_argument("--budget-s", type=float, default=500.0)
    parser.add_argument("--deadline", type=float, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    chosen = args.only or [n for stage in STAGES for n in stage]
    if args.dry_run:
        return _dry_run([n for n in KERNEL_FAMILIES if n in chosen])
    args.out.mkdir(parents=True, exist_ok=True)
    deadline_s = args.deadline or time.time() + args.budget_s
    if args.in_process:
        return _work(chosen, args.out, args.quick, deadline_s, args.back_to_back)
    for stage in STAGES:
        names = [n for n in stage if n in chosen]
        stage_deadline_s = deadline_s
        if "matmul" in stage:
            stage_deadline_s -= sum(v for n, v in RESERVE_S.items() if n in chosen)
        while names:
            command = [sys.executable, __file__, "--in-process", "--out", str(args.out),
                       "--deadline", str(stage_deadline_s), "--only", *names]  # fmt: skip
            command += ["--quick"] * args.quick + ["--back-to-back"] * args.back_to_back
            code = subprocess.run(command, check=False).returncode
            if code == 0:
                break
            names = _remaining(args.out, names)
    return 0


def _remaining(out: Path, names: list[str]) -> list[str]:
    """Families not yet logged: where to go on after a process died (the dying one is skipped)."""
    logged = [json.loads(line).get("family") for line in (out / "progress.json").open()]
    left = [n for n in names if n not in logged]
    return left[1:] if left == names else left


if __name__ == "__main__":
    sys.exit(main())
