"""Steps that were said before they were measured, said again by today's code: `plan_today.py`.

    python validation/plan_today.py [own] [tuning] [packed]     # no GPU: results/plan_today.json

Three sets: plans of two H200s (`plan_runs.py`; also by constants of the host that they ran on, made
anew from that host's bench), fine-tuning steps (`tuning_memory.py`), rows of examples that differ in
length (`packing_steps.py`). What was said before stays as it was: the pages tell both.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

import packing_steps  # noqa: E402
import plan_runs  # noqa: E402
import tuning_memory  # noqa: E402

TODAY = HERE / "results" / "plan_today.json"
BENCH = HERE / "recordings" / "h200" / "plan_runs_host" / "points.jsonl.gz"

Line = dict[str, Any]


def today() -> dict[str, dict[str, Line]]:
    """What was kept: set -> key -> seconds and bytes."""
    found: dict[str, dict[str, Line]] = json.loads(TODAY.read_text(encoding="utf-8"))
    return found


def key_of(line: Line) -> str:
    """Of a plan."""
    return ": ".join(plan_runs._key(line))


@functools.cache
def own_host() -> Any:
    """Constants of the host of the plans' runs, by its bench; the rest is the catalogue's."""
    import gzip

    from gpuscope.hardware import device
    from gpuscope.measurement.bench.store import point_from
    from gpuscope.measurement.calibrate import calibrate

    with gzip.open(BENCH, "rt", encoding="utf-8") as file:
        points = [point_from(json.loads(line)) for line in file]
    return calibrate(points, device("h200"))


def _own() -> Iterator[tuple[str, str, Line]]:
    from gpuscope.planning.simulate import Simulator
    from gpuscope.planning.types import Candidate
    from gpuscope.program.models.parallel.options import Parallelism

    ran = {plan_runs._key(line) for line in plan_runs._lines(plan_runs.MEASURED)}
    for line in json.loads(plan_runs.PREDICTED.read_text(encoding="utf-8")):
        if plan_runs._key(line) not in ran:
            continue
        asked = plan_runs.Asked(line["model"], line["global_batch"], line["seq"])
        question = plan_runs._question(asked, "h200")
        candidate = Candidate(question.clusters[0], Parallelism(**line["plan"]))
        said = Simulator(question)
        yield "own", key_of(line), plan_runs._figures(said.judge(candidate, 0.0))
        by_host = Simulator(question, own_host())
        by_host._steps._captured = said._steps._captured
        yield "own host", key_of(line), plan_runs._figures(by_host.judge(candidate, 0.0))


def _tuning() -> Iterator[tuple[str, str, Line]]:
    for case in tuning_memory.CASES:
        yield "tuning", case.name, tuning_memory.predicted(case)


def _packed() -> Iterator[tuple[str, str, Line]]:
    for case in packing_steps.CASES:
        yield "packed", case.name, packing_steps.predicted(case, "h200")


SETS = {"own": _own, "tuning": _tuning, "packed": _packed}


def main() -> None:
    """Predict the sets that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", choices=[*SETS, []])
    found = today() if TODAY.exists() else {}
    for name in parser.parse_args().sets or SETS:
        for group, key, line in SETS[name]():
            found.setdefault(group, {})[key] = line
            TODAY.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(group, key, f"{line['step_s'] * 1e3:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
