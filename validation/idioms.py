"""Predict and measure `workloads/idioms.py`: `idioms.py FILE` on a GPU, `idioms.py` for the table.

Each line of the recording: step time, kernels of a step and peak memory, predicted with the
catalogue's constants, and measured once or more; where the host was benched first
(`gpuscope bench --quick --save --only host`), predicted for that host, too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RECORDING = HERE / "recordings" / "h200" / "idioms.jsonl"
PROFILED_STEPS = 3
KERNEL = 0


def table(file: Path = RECORDING) -> list[str]:
    """A Markdown row for each program: launches and step, predicted and measured."""
    found = []
    for line in file.read_text("utf-8").splitlines():
        row = json.loads(line)
        own = row.get("predicted_for_this_host", {}).get("step_s")
        last, guess = row["measured"][-1], row["predicted"]
        benched = "" if own is None else f"{own * 1e3:.2f}"
        off = f"{guess['kernels'] / last['kernels'] - 1:+.0%}"
        found.append(
            f"| `{row['name']}` | {guess['kernels']:,.0f} | {last['kernels']:,.0f} | {off} |"
            f" {guess['step_s'] * 1e3:.2f} | {benched} | {last['step_s'] * 1e3:.2f} |"
        )
    return found


def run(build: Any) -> dict[str, Any]:
    """One program, predicted for an H200 and measured here."""
    import gpuscope as gs

    guess, real = gs.predict(build, on="h200"), gs.measure(build)
    return {"predicted": _facts(guess, 1), "measured": [_facts(real, PROFILED_STEPS)]}


def _facts(run: Any, steps: int) -> dict[str, Any]:
    return {
        "step_s": run.step_time_s,
        "kernels": int((run.timeline.events.kind == KERNEL).sum()) / steps,
        "peak_bytes": run.peak_memory_bytes,
    }


def main() -> None:
    """Run all of them, or print what was recorded."""
    if len(sys.argv) < 2:
        print("\n".join(table()))
        return
    sys.path.insert(0, str(HERE / "workloads"))
    import idioms

    lines = [json.dumps({"name": name, **run(build)}) for name, build in idioms.ALL.items()]
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
