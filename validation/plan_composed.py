"""Composed steps held against simulated ones: `python validation/plan_composed.py`.

`plan` orders its candidates by a step composed of what one block costs, and simulates the best.
Of each question here the steps of 64 candidates are composed, some of these simulated, and both
times kept in `validation/results/plan_composed.json`; a line a question is printed: median and
worst difference, and Kendall's tau of the two orders. docs/plan.md has these figures.

`--kept` only prints what is kept (`make validate-plan`): to simulate takes minutes. `--only NAME`
asks one question, and leaves the others as they are.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

from gpuscope.errors import GpuscopeError  # noqa: E402
from gpuscope.planning.composed import composed_s  # noqa: E402
from gpuscope.planning.question import question_of  # noqa: E402
from gpuscope.planning.score import score  # noqa: E402
from gpuscope.planning.simulate import Simulator  # noqa: E402
from gpuscope.planning.space import candidates  # noqa: E402
from gpuscope.planning.tables import Tables  # noqa: E402

RESULTS = HERE / "results" / "plan_composed.json"

_LONG: dict[str, Any] = {"seq": 8192, "plans": 0}
QUESTIONS: dict[str, dict[str, Any]] = {
    "1B": {"model": "llama-3.2-1b", "on": "h100", "devices": 8, "plans": 12},
    "8B": {"model": "llama-3.1-8b", "on": "h200", "devices": 8, "plans": 8},
    "70B": {
        "model": "llama-3.1-70b", "on": "mi300x", "devices": 64, "global_batch": 1024, **_LONG,
        "words": ("dp 2, pp 8, cp 4, fsdp zero1, zb, microbatch 1",
                  "dp 2, pp 16, cp 2, fsdp zero1, microbatch 1"),
    },
    "70B wide": {
        "model": "llama-3.1-70b", "on": "mi300x", "devices": 128, "global_batch": 1024, **_LONG,
        "words": ("dp 2, pp 32, cp 2, fsdp zero1, interleaved, virtual 2, microbatch 1",
                  "dp 4, pp 8, cp 4, fsdp zero1, interleaved, virtual 2, microbatch 1"),
    },
    "405B": {
        "model": "llama-3.1-405b", "on": "h100", "devices": 16384, "global_batch": 2048, **_LONG,
        "words": ("dp 16, tp 8, pp 64, cp 2, fsdp zero1, interleaved, virtual 2, microbatch 1",
                  "dp 8, tp 8, pp 64, cp 4, fsdp zero1, zb, microbatch 1",
                  "dp 8, tp 8, pp 32, cp 8, fsdp zero1, microbatch 1"),
    },
}  # fmt: skip
"""Of 64 sequences of 4,096 tokens a step where nothing else is said; deep pipelines, which take
long, by name."""

COMPOSED = 64
"""Candidates whose step is composed, the best by the quick score, as in a search."""


def ask(
    model: str,
    on: str,
    devices: int,
    plans: int,
    global_batch: int = 64,
    seq: int = 4096,
    words: tuple[str, ...] = (),
) -> list[dict[str, Any]]:
    """Words, composed and simulated seconds of so many plans, evenly spaced among the composed.

    Those are the best by the quick score, without what it calls too large: neighbours in the order
    are mostly alike, so that the best alone would be one plan many times. Or of those in `words`.
    """
    question = question_of(model, on=on, devices=devices, global_batch=global_batch, seq=seq)
    found, _ = candidates(question)
    scores, tables, simulator = score(question, found), Tables(question), Simulator(question)
    usable = question.clusters[0].device.memory_usable_bytes
    fitting = [n for n in range(len(found)) if scores.estimate_bytes[n] <= usable]
    fitting = sorted(fitting, key=lambda n: float(scores.estimate_s[n]))[:COMPOSED]
    if words:
        fitting = [n for n in range(len(found)) if found[n].words in words]
    composed = [(composed_s(question, found[n], tables.of(found[n])), n) for n in fitting]
    composed.sort()
    rows: list[dict[str, Any]] = []
    plans = plans or len(composed)
    for seconds, n in composed[:: max(1, len(composed) // plans)][:plans]:
        try:
            judged = simulator.judge(found[n], seconds)
        except GpuscopeError as error:
            print(f"{found[n].words}: {error.what}", file=sys.stderr)
            continue
        rows.append({"plan": found[n].words, "composed_s": seconds, "simulated_s": judged.step_s})
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def tau(pairs: list[tuple[float, float]]) -> float:
    """Kendall's, of two orders without equal values."""
    signs = [1 if (a[0] - b[0]) * (a[1] - b[1]) > 0 else -1 for a, b in combinations(pairs, 2)]
    return sum(signs) / len(signs)


def figures(rows: list[dict[str, Any]]) -> tuple[float, float, float]:
    """Median and worst difference as shares of the simulated step, and tau."""
    pairs = [(each["composed_s"], each["simulated_s"]) for each in rows]
    off = [abs(composed / simulated - 1) for composed, simulated in pairs]
    return statistics.median(off), max(off), tau(pairs)


def kept() -> dict[str, list[dict[str, Any]]]:
    """By question, what was found last."""
    found: dict[str, list[dict[str, Any]]] = {}
    if RESULTS.exists():
        found = json.loads(RESULTS.read_text("utf-8"))
    return found


def line(name: str, rows: list[dict[str, Any]]) -> str:
    """What a question comes to."""
    asked, (median, worst, order) = QUESTIONS[name], figures(rows)
    return (
        f"{asked['model']} on {asked['devices']} {asked['on']}: {len(rows)} plans, median "
        f"{100 * median:.1f} %, worst {100 * worst:.1f} %, tau {order:.2f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kept", action="store_true", help="print what is kept, ask nothing")
    parser.add_argument("--only", choices=sorted(QUESTIONS), help="one question")
    given = parser.parse_args()
    found = kept()
    for name, asked in QUESTIONS.items():
        if not given.kept and given.only in (None, name):
            found[name] = ask(**asked)
            RESULTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        if name in found:
            print(line(name, found[name]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
