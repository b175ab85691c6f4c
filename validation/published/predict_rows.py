"""Predict all published rows that can be expressed: `predict_rows.py [--jobs 2] [part of an id ...]`.

Writes `validation/results/published.json`: for each row what was measured, what is predicted with
its 80 % interval, or why it is not. Rows that ask for the same work on the same machine are
predicted once. With parts of ids only those rows are predicted anew; the others are kept.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:
    sys.path.insert(0, str(HERE.parent))

from published.express import Expressed, NotExpressed, express  # noqa: E402
from published.rows import Row, read_rows  # noqa: E402

RESULTS = HERE.parent / "results" / "published.json"


def key_of(made: Expressed) -> str:
    """Rows with the same key are the same prediction."""
    return repr((made.workload, made.machine, made.devices, made.options))


def predict(made: Expressed) -> dict[str, Any]:
    """Step time and interval in seconds, or the error that the prediction ended in."""
    from gpuscope.errors import GpuscopeError

    began = time.monotonic()
    try:
        step_s, low_s, high_s = _step_s(made)
    except GpuscopeError as error:
        return {"failed": str(error).splitlines()[0]}
    return {
        "predicted_s": step_s, "low_s": low_s, "high_s": high_s,
        "took_s": round(time.monotonic() - began, 2),
    }  # fmt: skip


def _step_s(made: Expressed) -> tuple[float, float, float]:
    from gpuscope.api import recost
    from gpuscope.cost.skew import DEVICE_BOUND, waiting

    cluster = made.machine.cluster(made.devices)
    found = recost(made.workload, cluster, options=made.options, memory=False)
    assert found.low_s is not None and found.high_s is not None
    late = waiting(made.devices, found.step_time_s, DEVICE_BOUND)  # as gpuscope.prediction adds it
    if made.devices == 1:
        return found.step_time_s, found.low_s, found.high_s
    return found.step_time_s + late.mean_s, found.low_s + late.low_s, found.high_s + late.high_s


def rows_to_predict(rows: Iterable[Row], parts: Sequence[str]) -> list[Row]:
    """Those whose id has one of the parts; all where there is none."""
    return [row for row in rows if not parts or any(part in row.id for part in parts)]


def _entry(row: Row, made: Expressed | NotExpressed, found: dict[str, Any] | None) -> dict[str, Any]:
    base = {"source": row.source, "hardware": row.hardware, "model": row.model,
            "devices": row.devices, "kind": row.kind}  # fmt: skip
    if isinstance(made, NotExpressed):
        return {**base, "why_not": made.why}
    assert found is not None
    told = {**base, "devices": made.devices, "measured_s": made.step_s, "tokens": made.tokens,
            "assumed": list(made.assumed)}  # fmt: skip
    return {**told, **found}


def main(arguments: Sequence[str] | None = None) -> int:
    """Predict and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(arguments)
    known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    rows = read_rows()
    expressed = {row.id: express(row) for row in rows}
    wanted = {row.id for row in rows_to_predict(rows, asked.parts)}
    tasks: dict[str, Expressed] = {}
    for name in wanted:
        made = expressed[name]
        if isinstance(made, Expressed):
            tasks.setdefault(key_of(made), made)
    found = _all(tasks, asked.jobs)
    written = {}
    for row in rows:
        made = expressed[row.id]
        if isinstance(made, NotExpressed):
            written[row.id] = _entry(row, made, None)
        elif row.id in wanted:
            written[row.id] = _entry(row, made, found[key_of(made)])
        elif row.id in known:
            written[row.id] = known[row.id]
    _write(written)
    return 0


def _all(tasks: dict[str, Expressed], jobs: int) -> dict[str, dict[str, Any]]:
    order = sorted(tasks, key=lambda key: (tasks[key].row.pp or 1) * tasks[key].devices)
    context = multiprocessing.get_context("spawn")
    found: dict[str, dict[str, Any]] = {}
    with context.Pool(jobs, maxtasksperchild=20) as pool:
        results = pool.imap_unordered(_task, [(key, tasks[key]) for key in order])
        for number, (key, result) in enumerate(results, 1):
            found[key] = result
            ratio = result.get("predicted_s", 0.0) / tasks[key].step_s
            print(
                f"{number:4d}/{len(order)}  {ratio:6.3f}  {tasks[key].row.id}"
                f"  {result.get('failed', '')}  {result.get('took_s', '')}",
                flush=True,
            )
    return found


def _task(task: tuple[str, Expressed]) -> tuple[str, dict[str, Any]]:
    key, made = task
    try:
        return key, predict(made)
    except Exception as error:  # a row that breaks must not stop the others; it is listed
        return key, {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}


def _write(entries: dict[str, dict[str, Any]]) -> None:
    from gpuscope.atomic import write_atomically

    write_atomically(RESULTS, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
