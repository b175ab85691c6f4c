"""Whole models under a machine's own constants: `python validation/own.py FILE|FOLDER [name ...]`.

Predicts the recorded zoo (`--recordings DIR`, the H200's by default) with the shipped constants and
with the given ones, and prints both errors of the step time beside the recorded one. The given
constants come from benches alone; nothing of the zoo is ever fitted to.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE), str(HERE / "workloads")]

HOST_BOUND = (
    "gpt2-decode-b1",
    "llama-8b-decode-b1",
    "qwen3-0.6b-decode",
    "gpt2-train-tiny",
    "resnet18-train-b1",
    "user-mlp-small",
    "user-encoder",
    "bert-base-train",
    "t5-large-train",
    "qwen2.5-0.5b-train",
)
"""Rows in which the host sets, or nearly sets, the pace."""


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calibration")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--recordings", type=Path, default=HERE / "recordings" / "h200" / "zoo")
    parser.add_argument("--on", default="h200")
    parser.add_argument("--all", action="store_true", help="every row, not just host-bound ones")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    from zoo import ZOO

    import gpuscope as gs
    from measure import resolve_build

    wanted = args.names or (() if args.all else HOST_BOUND)
    rows = []
    for entry in ZOO:
        path = args.recordings / f"{entry.name}.json"
        if (wanted and entry.name not in wanted) or not path.exists():
            continue
        measured = json.loads(path.read_text())["step_time_s"]
        program = gs.capture(resolve_build(entry))
        shipped = gs.predict(program, on=args.on)
        own = gs.predict(program, on=args.on, calibration=args.calibration)
        low, high = own.step_time_interval_s
        rows.append(
            {
                "name": entry.name,
                "measured_s": measured,
                "shipped_error": shipped.step_time_s / measured - 1,
                "own_error": own.step_time_s / measured - 1,
                "own_hit": low <= measured <= high,
                "host_bound": own.host_busy_s > 1.1 * own.device_busy_s,
            }
        )
        r = rows[-1]
        print(
            f"{entry.name:22s} {measured * 1e3:8.2f} ms   shipped {r['shipped_error']:+7.1%}   "
            f"own {r['own_error']:+7.1%}  {'' if r['own_hit'] else 'outside '}"
            f"{'host-bound' if r['host_bound'] else ''}",
            flush=True,
        )
    for label, chosen in (("all", rows), ("host-bound", [r for r in rows if r["host_bound"]])):
        if chosen:
            print(
                f"{label}: {len(chosen)} rows, mean error shipped "
                f"{statistics.mean(abs(r['shipped_error']) for r in chosen):.1%}, own "
                f"{statistics.mean(abs(r['own_error']) for r in chosen):.1%}, own worst "
                f"{max(abs(r['own_error']) for r in chosen):.1%}"
            )
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
