"""Data parallelism on two GPUs: sets of changes chosen by hand, tried in pairs, with parity.

python benchmarks/ladders/ddp.py OUT.json
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from gpuscope.advice.results import Limits, Target
from gpuscope.advice.trial.trials import Trials

HERE = Path(__file__).resolve().parent
SETS = (
    ("bf16-autocast", "sdpa", "pad-vocabulary", "fused-optimizer"),
    (
        "bf16-autocast",
        "sdpa",
        "pad-vocabulary",
        "fused-optimizer",
        "ddp-bucket-view",
        "ddp-static-graph",
    ),
    ("bf16-autocast", "sdpa", "pad-vocabulary", "fused-optimizer", "compile-unmasked"),
)


def main() -> None:
    begin = time.perf_counter()
    rows: list[dict[str, object]] = []
    target = Target("build", f"{HERE / 'naive' / 'ddp_gpt2.py'}:build")
    with Trials(target, Limits(110), processes=2, say=print) as trials:
        rows.append({"names": [], "measured": asdict(trials.baseline())})
        best: tuple[str, ...] = ()
        for names in SETS:
            trial = trials.contest(best, names)
            rows.append(asdict(trial))
            print(
                f"{time.perf_counter() - begin:.0f} s",
                names,
                trial.outcome,
                trial.speedup,
                str(trial.why),
                trial.parity and trial.parity.verdict,
                flush=True,
            )
            Path(sys.argv[1]).write_text(json.dumps(rows, default=str, indent=1))
            if trial.outcome == "kept":
                best = names


if __name__ == "__main__":
    main()
