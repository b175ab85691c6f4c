"""Whole-process speed of gpuscope: `python benchmarks/speed.py [--write] [--against COMMIT]`.

Each command runs in a fresh process, three times; the best wall time and the largest memory count.
Modules are compiled once, as an installed package has them, also under PYTHONDONTWRITEBYTECODE.
A first question is asked with nothing kept, a second one with what the first has kept.

Machines are noisy: `--against` runs both trees in turns, and ends with 1 where a command of this
one takes more than a tenth more processor time than the other's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from traces import apart

ROOT = Path(__file__).resolve().parents[1]

LOSS = 1.10
"""Processor time over that of the other commit, from which on a command has become slower."""

SECOND = ", asked again"
"""End of the name of a case that finds what an equal command has kept."""

SERVED = ["plan", "qwen3-32b", "--task", "serve", "--on", "h100,h200", "--devices", "..8"]
SERVED += ["--input", "4000", "--output", "500", "--slo", "ttft<1s,tpot<20ms", "--rate", "6"]
SERVED += ["--json"]

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
    f"gpt2 training step{SECOND}": (
        ["predict", "gpt2", "--task", "train", "--on", "h200", "--json", "--quiet"],
        1.0,
    ),
    f"llama-3.1-8b training step{SECOND}": (
        ["predict", "llama-3.1-8b", "--task", "train", "--on", "h200", "--json", "--quiet"],
        1.5,
    ),
    f"llama-3.1-70b training step{SECOND}": (
        ["predict", "llama-3.1-70b", "--task", "train", "--on", "h200", "--json", "--quiet"],
        1.5,
    ),
    f"plan GPT-2 on two devices{SECOND}": (
        ["plan", "gpt2", "--devices", "1..2", "--seq", "1024", "--simulate", "2", "--json"],
        3.0,
    ),
    "plan llama-3.1-8b on eight devices": (
        ["plan", "llama-3.1-8b", "--devices", "1..8", "--json"],
        8.0,
    ),
    f"plan llama-3.1-8b on eight devices{SECOND}": (
        ["plan", "llama-3.1-8b", "--devices", "1..8", "--json"],
        3.0,
    ),
    "plan serving of qwen3-32b": (SERVED, 10.0),
    f"plan serving of qwen3-32b{SECOND}": (SERVED, 3.0),
    "advise gpt2": (["advise", "gpt2", "--on", "h200", "--json", "--quiet"], 15.0),
    "analyze 100,000 events": (["analyze", "{scratch}/6.json", "--json"], 1.0),
    "analyze a million events": (["analyze", "{scratch}/58.json", "--json"], 3.0),
    "analyze a recorded trace of 9,000 events": (
        ["analyze", "tests/data/traces/h200/host_bound/rank-0.json.gz", "--json"],
        1.0,
    ),
}


SOURCE = ROOT / "tests/data/traces/h200/resnet50_channels_last/rank-0.json.gz"
"""17,419 events, repeated for the larger recordings: the file's name says how often."""


@dataclass(frozen=True)
class Tree:
    """A checkout, and a folder for what Python and gpuscope keep of it."""

    root: Path
    scratch: Path

    def run(self, arguments: list[str], kept: bool) -> tuple[float, float, float]:
        """Wall seconds, processor seconds, peak memory in bytes of one process."""
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPATH"] = str(self.root / "src")
        environment["PYTHONPYCACHEPREFIX"] = str(self.scratch / "compiled")
        environment["GPUSCOPE_CACHE"] = str(self.scratch / "kept") if kept else "off"
        arguments = [part.format(scratch=self.scratch) for part in arguments]
        for part in arguments:
            made = Path(part)
            if made.parent == self.scratch and not made.exists():
                self.scratch.mkdir(parents=True, exist_ok=True)
                apart(SOURCE, made, int(made.stem))
        started = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "gpuscope", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.root,
            env=environment,
        )
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"{self.root}: {arguments} ended with {child.returncode}")
        return wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024.0


def timed(name: str, trees: list[Tree], repeat: int) -> list[dict[str, float]]:
    """One case in every tree, in turns, after a run of each that counts for nothing."""
    arguments, _ = CASES[name]
    kept = name.endswith(SECOND)
    for tree in trees:
        tree.run(arguments, kept)
    rounds = [[tree.run(arguments, kept) for tree in trees] for _ in range(repeat)]
    return [
        {
            "wall_s": round(min(t[0] for t in runs), 3),
            "processor_s": round(min(t[1] for t in runs), 3),
            "peak_memory_bytes": max(t[2] for t in runs),
        }
        for runs in zip(*rounds, strict=True)
    ]


def measured(names: list[str], trees: list[Tree], repeat: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in names:
        own, *other = timed(name, trees, repeat)
        row: dict[str, object] = {"case": name, **own, "target_s": CASES[name][1]}
        if other:
            row["before"] = other[0]
            row["ratio"] = round(own["processor_s"] / other[0]["processor_s"], 3)
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write results/speed.json")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--against", metavar="COMMIT", help="fail where that one is quicker")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    args = parser.parse_args()
    names = [name for name in CASES if args.only in name]
    with tempfile.TemporaryDirectory() as scratch:
        trees = [Tree(ROOT, Path(scratch, "own"))]
        if args.against:
            checkout = Path(scratch, "before", "tree")
            git = ["git", "-C", str(ROOT), "worktree"]
            subprocess.run([*git, "add", "--detach", checkout, args.against], check=True)
            trees.append(Tree(checkout, checkout.parent))
        try:
            rows = measured(names, trees, args.repeat)
        finally:
            if args.against:
                subprocess.run([*git, "remove", "--force", checkout], check=False)
    if args.write:
        out = ROOT / "benchmarks" / "results" / "speed.json"
        out.parent.mkdir(exist_ok=True)
        load = os.getloadavg()[0]
        facts = {"cores": os.cpu_count(), "load_after": load, "against": args.against}
        out.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")
    slower = [row["case"] for row in rows if float(str(row.get("ratio", 0))) > LOSS]
    if slower:
        sys.exit(f"slower than {args.against}: {', '.join(map(str, slower))}")


if __name__ == "__main__":
    main()
