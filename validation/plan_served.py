"""The line that `plan --task serve --for vllm` writes, started on one H200 under its load.

    python validation/plan_served.py predict             # no GPU: results/plan_served.json
    python validation/plan_served.py measure --out DIR   # one GPU, vLLM: DIR/plan_served_h200.json

What the line leaves to the user is added: where the configuration lies (random weights, since speed
does not depend on them), the longest request, the port. The requests are those of the question,
Poisson, of lengths that all are the same; beside them, as many as the server takes, with 256 in
flight: what it can serve at most. `validation/record_served.py` starts and asks.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

PREDICTED = HERE / "results" / "plan_served.json"
MEASURED = "plan_served_h200.json"
MODEL = "llama-3.1-8b"
PROMPT, ANSWER, RATE, COUNT, IN_FLIGHT = 1000, 200, 10.0, 300, 256


def predict() -> None:
    """Write what is planned, what it should give, and the line that starts it."""
    from gpuscope.planning.serving.search import question_of_serving, search_serving
    from gpuscope.planning.serving.space import deployed
    from gpuscope.serving.simulate import serve_requests
    from gpuscope.serving.verb import load_of

    question = question_of_serving(
        MODEL, on="h200", devices=1, rate=RATE, input=str(PROMPT), answer=str(ANSWER),
        slo="ttft<500ms,tpot<20ms", dtype="bfloat16", engine="vllm",
    )  # fmt: skip
    plan = search_serving(question)
    best = plan.best
    assert best is not None
    (full,) = load_of(
        "poisson", rate=None, concurrency=(IN_FLIGHT,), input=str(PROMPT), output=str(ANSWER),
        requests=4 * IN_FLIGHT, seed=1,
    )  # fmt: skip
    served = serve_requests(deployed(question, best.choice), full).served
    found = {
        "words": best.choice.words,
        "line": plan.to("vllm"),
        "ttft_p90_s": best.ttft_s,
        "tpot_p90_s": best.tpot_s,
        "feasible": best.feasible,
        "headroom": best.headroom,
        "full_house_per_s": kept_up(served.finished_s),
    }
    PREDICTED.write_text(json.dumps(found, indent=1) + "\n")


def options_of(line: str) -> list[str]:
    """What stands behind the model's name."""
    words = shlex.split(line.replace("\\\n", " "), comments=True)
    return words[words.index(MODEL) + 1 :]


def measure(out: Path) -> None:
    """Start the line, ask, write what came."""
    from record_served import EXTRA, run_of, started, stopped, told

    out.mkdir(parents=True, exist_ok=True)
    logs = Path(tempfile.mkdtemp())
    EXTRA[MODEL] = options_of(json.loads(PREDICTED.read_text())["line"])
    process = started(MODEL, logs)
    lengths = {"input": PROMPT, "output": ANSWER}
    try:
        run_of(lengths | {"concurrency": 8, "count": 32})
        asked = run_of(lengths | {"rate": RATE, "count": COUNT, "seed": 0})
        full = run_of(lengths | {"concurrency": IN_FLIGHT, "count": 4 * IN_FLIGHT, "seed": 1})
        result = {
            "outcome": "ran",
            "options": EXTRA[MODEL],
            "asked": percentiles(asked["requests"]),
            "full_house_per_s": kept_up(np.array(full["requests"]["finished_ms"], float) / 1e3),
            "told": told(logs / f"{MODEL}.log"),
        }
        (out / MEASURED).write_text(json.dumps(result, indent=1) + "\n")
        print(json.dumps(result["asked"]), result["full_house_per_s"], flush=True)
    finally:
        stopped(process)


def percentiles(requests: dict[str, Any]) -> dict[str, float]:
    """TTFT and TPOT of half, and of nine in ten, of the requests, in seconds."""
    sent, first, last, tokens = (
        np.array(requests[name], dtype=float)
        for name in ("sent_ms", "first_ms", "finished_ms", "output_tokens")
    )
    found = {}
    for name, each in (("ttft", first - sent), ("tpot", (last - first) / (tokens - 1))):
        for percent in (50, 90):
            found[f"{name}_p{percent}_s"] = float(np.nanpercentile(each, percent)) / 1e3
    return found


def kept_up(finished_s: Any) -> float:
    """Requests a second of a full house: those that ended between its filling and its emptying."""
    rest = np.sort(finished_s)[IN_FLIGHT:-IN_FLIGHT]
    return float((len(rest) - 1) / (rest[-1] - rest[0]))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("predict", "measure"))
    parser.add_argument("--out", type=Path, default=Path())
    given = parser.parse_args()
    if given.what == "predict":
        predict()
    else:
        measure(given.out.resolve())


if __name__ == "__main__":
    main()
