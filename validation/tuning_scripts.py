"""Scripts that `plan --task finetune --for peft` writes, run as they are and held against the plan.

    python validation/tuning_scripts.py predict              # no GPU: results/tuning_scripts.json
    python validation/tuning_scripts.py measure --out DIR    # one GPU: DIR/tuning_scripts.jsonl

`predict` keeps each script beside what was planned, so that `measure` needs torch, transformers,
accelerate, peft and bitsandbytes alone. A script runs in a process of its own with random weights,
and prints what each step takes and holds; out of memory is a result. Nothing is tuned on it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src")]

PREDICTED = HERE / "results" / "tuning_scripts.json"
DEVICE = "h200"
STEPS = 6
"""The first makes the optimizer's states and loads kernels; the median of the others counts."""

CASES: dict[str, dict[str, Any]] = {
    "1B lora": {"model": "llama-3.2-1b", "method": "lora"},
    "1B qlora": {"model": "llama-3.2-1b", "method": "qlora"},
    "1B full": {"model": "llama-3.2-1b", "method": "full"},
    "1B lora, packed": {"model": "llama-3.2-1b", "method": "lora", "packing": "mask",
                        "lengths": "lognormal:400,0.8"},
    "8B qlora": {"model": "llama-3.1-8b", "method": "qlora"},
    "8B lora": {"model": "llama-3.1-8b", "method": "lora"},
}  # fmt: skip
"""Questions; all of 16 sequences of 2,048 tokens, or as many examples, a step."""

_STEP = re.compile(r"step (\d+): loss ([0-9.naif]+), ([0-9.]+) ms, peak (\d+) bytes")


def predict() -> None:
    """Plan each, and keep the script with what was planned."""
    import gpuscope as gs

    found = []
    for name, asked in CASES.items():
        words = {"on": DEVICE, "devices": 1, "global_batch": 16, "seq": 2048, "simulate": 3}
        plan = gs.plan(task="finetune", **words, **asked)
        best = plan.best
        assert best is not None
        figures = ("step_s", "low_s", "high_s", "peak_bytes")
        line = {"case": name, "plan": best.candidate.words}
        line |= {each: getattr(best, each) for each in figures}
        found.append(line | {"script": plan.to("peft")})
        print(name, best.candidate.words, best.step_s, best.peak_bytes, flush=True)
    PREDICTED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measure(out: Path, budget_s: float) -> None:
    """Run every script that has no line yet, until the time is over."""
    out.mkdir(parents=True, exist_ok=True)
    path, begun, longest_s = out / "tuning_scripts.jsonl", time.monotonic(), 0.0
    done = path.read_text("utf-8") if path.exists() else ""
    for each in json.loads(PREDICTED.read_text("utf-8")):
        if f'"case": "{each["case"]}"' in done:
            continue
        started = time.monotonic()
        if started - begun + longest_s > budget_s:
            print("no time for the rest", flush=True)
            return
        script = out / "tune.py"
        script.write_text(each["script"], encoding="utf-8")
        ran = subprocess.run(
            [sys.executable, str(script), "--steps", str(STEPS)], capture_output=True, text=True
        )
        steps = [(float(ms) / 1e3, int(peak)) for _, _, ms, peak in _STEP.findall(ran.stdout)]
        line: dict[str, Any] = {"case": each["case"], "code": ran.returncode}
        line |= {"steps_s": [step for step, _ in steps], "peaks": [peak for _, peak in steps]}
        if ran.returncode:
            line["said"] = ran.stderr[-800:]
        longest_s = max(longest_s, time.monotonic() - started)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)


def main() -> None:
    """Predict or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("predict", "measure"))
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--budget", type=float, default=170.0, help="seconds in all")
    args = parser.parse_args()
    if args.what == "predict":
        predict()
    else:
        measure(args.out, args.budget)


if __name__ == "__main__":
    main()
