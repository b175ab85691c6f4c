"""How long questions to `plan` take: `python validation/plan_speed.py measure [--only NAME]`.

Each is a process of its own, from nothing kept (cold) and again (kept): time by the clock and time
of the processor, its children included, in `validation/results/plan_speed.json`. `measure` takes
minutes, the largest question up to its limit; `plan_targets.py` prints what is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "plan_speed.json"

LIMIT_S = 900.0
"""What takes longer is ended, and kept as that."""

_TRAIN = ["--global-batch", "64", "--seq", "4096"]
_SERVE = ["--task", "serve", "--input", "4000", "--output", "500", "--rate", "6"]
QUESTIONS: dict[str, list[str]] = {
    "8B": ["llama-3.1-8b", "--on", "h200", "--devices", "1..8", *_TRAIN],
    "serve": ["qwen3-32b", "--on", "h100,h200", "--devices", "..8", *_SERVE,
              "--slo", "ttft<1s,tpot<20ms"],
    "405B": ["llama-3.1-405b", "--on", "h100", "--devices", "8..16384", "--global-batch", "2048",
             "--seq", "8192"],
}  # fmt: skip
"""Those of the targets: 8 B on up to 8 devices, 405 B on up to 16,384, and a server."""

SCORED = """
import json
from gpuscope.planning.question import question_of
from gpuscope.planning.score import score
from gpuscope.planning.space import candidates
import time
question = question_of("llama-3.1-70b", on="h100,h200,mi300x", devices="8..1024",
                       global_batch=1024, seq=8192)
found = candidates(question)[0]
score(question, found[:64])
begun = time.process_time()
score(question, found)
print(json.dumps([len(found), len(found) / (time.process_time() - begun)]))
"""
"""Candidates of the 70 B question, and how many are scored in a second of the processor."""


def timed(words: list[str], home: str) -> dict[str, Any]:
    """Seconds of a command by the clock and of the processor."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    ended = True
    source = str(HERE.parent / "src")
    told = {**os.environ, "XDG_CACHE_HOME": home, "PYTHONPATH": source}
    process = subprocess.Popen(words, env=told, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, said = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        _, said = process.communicate()
        ended = False
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended and process.returncode != 0:
        raise SystemExit(said.decode(errors="replace")[-2000:])
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"clock_s": time.monotonic() - begun, "processor_s": used, "ended": ended}


def measure(only: str | None) -> None:
    """Ask every question twice, keep what it took."""
    found = kept()
    if only in (None, "scored"):
        source = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
        said = subprocess.run(
            [sys.executable, "-c", SCORED], env=source, capture_output=True, check=True, text=True
        )
        count, each_s = json.loads(said.stdout)
        found["scored"] = {"candidates": count, "per_s": each_s}
        _keep(found)
    for name, words in QUESTIONS.items():
        if only not in (None, name):
            continue
        line = [sys.executable, "-m", "gpuscope", "plan", *words, "--quiet"]
        with tempfile.TemporaryDirectory() as home:
            cold = timed(line, home)
            found[name] = {"cold": cold, "kept": timed(line, home) if cold["ended"] else None}
        _keep(found)


def _keep(found: dict[str, Any]) -> None:
    found["machine"] = {"cores": os.cpu_count(), "python": platform.python_version()}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found), file=sys.stderr, flush=True)


def kept() -> dict[str, Any]:
    """What was measured last, by question."""
    found: dict[str, Any] = {}
    if RESULTS.exists():
        found = json.loads(RESULTS.read_text("utf-8"))
    return found


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("measure",))
    parser.add_argument("--only", choices=("scored", *QUESTIONS))
    measure(parser.parse_args().only)


if __name__ == "__main__":
    main()
