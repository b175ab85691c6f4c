"""Predict the published rows: `predict_rows.py [--jobs 2] [--missing | --old] [part of an id ...]`.

Writes `validation/results/published.json`: for each row what was measured, what is predicted with
its 80 % interval (of kernels, and with what the row does not state), or why it is not. Rows that
ask for the same work on the same machine are predicted once. With parts of ids only those rows are
predicted anew; the others are kept, and with `--kept` all are. Each has the digest of the
models that made it (`state`), of what was asked of them (`asked`) and when they did (`on`): the
page marks rows of an earlier state. Every fifth result is written, so that `--old` goes on where a
run stopped, and predicts no more than what other models, or another profile of a software, made.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:
    sys.path.insert(0, str(HERE.parent))

from published.captures import sources  # noqa: E402
from published.express import Expressed, NotExpressed, express  # noqa: E402
from published.repeats import widened  # noqa: E402
from published.rows import Row, read_rows  # noqa: E402
from published.steps import capture, microbatches, step_s, with_microbatches  # noqa: E402
from published.unstated import half_widths  # noqa: E402

NOT_RUN = "expressed, but not run since the models changed"
"""Why a row has no prediction yet: `--missing` runs it."""

_FOUND = (
    "predicted_s",
    "kernels_low_s",
    "kernels_high_s",
    "took_s",
    "state",
    "asked",
    "on",
    "failed",
)

_DECIDE = ("cost", "hardware", "program", "timeline")
"""Parts of gpuscope that decide a prediction."""

RESULTS = HERE.parent / "results" / "published.json"


def key_of(made: Expressed) -> str:
    """Rows with the same key are the same prediction."""
    # Not the options' own repr: it is cut short, and rows that differ at its end would be one.
    return repr((made.workload, made.machine, made.devices, asdict(made.options)))


def predict(made: Expressed) -> dict[str, Any]:
    """Step time and interval in seconds, or the error that the prediction ended in."""
    from gpuscope.errors import GpuscopeError

    began = time.monotonic()
    try:
        time_s, low_s, high_s = step_s(made)
    except GpuscopeError as error:
        return {"failed": str(error).splitlines()[0]}
    return {
        "predicted_s": time_s,
        "kernels_low_s": low_s,
        "kernels_high_s": high_s,
        "took_s": round(time.monotonic() - began, 2),
        "state": state(),
        "asked": asked(made),
        "on": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
    }


def asked(made: Expressed) -> str:
    """A digest of `key_of`."""
    return hashlib.blake2b(key_of(made).encode(), digest_size=6).hexdigest()


@cache
def state() -> str:
    """A digest of the models, constants and captures that predict."""
    return sources(_DECIDE)


def is_old(entry: dict[str, Any], made: Expressed | NotExpressed) -> bool:
    """Whether other models made an entry, or were asked something else."""
    if isinstance(made, NotExpressed):
        return False
    return (entry.get("state"), entry.get("asked")) != (state(), asked(made))


def rows_to_predict(rows: Iterable[Row], parts: Sequence[str]) -> list[Row]:
    """Those whose id has one of the parts; all where there is none."""
    return [row for row in rows if not parts or any(part in row.id for part in parts)]


def _entry(
    row: Row, made: Expressed | NotExpressed, found: dict[str, Any] | None
) -> dict[str, Any]:
    base = {
        "source": row.source,
        "hardware": row.hardware,
        "model": row.model,
        "devices": row.devices,
        "kind": row.kind,
    }
    if isinstance(made, NotExpressed):
        return {**base, "why_not": made.why}
    assert found is not None
    told = {
        **base,
        "stack": made.stack,
        "release": row.release or "",
        "devices": made.devices,
        "measured_s": made.step_s,
        "tokens": made.tokens,
        "assumed": list(made.assumed),
    }
    if "predicted_s" not in found:
        return {**told, **found}
    kernels = (found["predicted_s"], found["kernels_low_s"], found["kernels_high_s"])
    low_s, high_s = widened(*kernels, *half_widths(made.unstated))
    return {**told, **found, "low_s": low_s, "high_s": high_s}


def main(arguments: Sequence[str] | None = None) -> int:
    """Predict and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--missing", action="store_true", help="keep what is predicted already")
    parser.add_argument("--old", action="store_true", help="keep what today's models predicted")
    parser.add_argument("--captures", action="store_true", help="capture; predict nothing")
    parser.add_argument("--kept", action="store_true", help="predict nothing; write anew")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    told = parser.parse_args(arguments)
    known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    rows = read_rows()
    expressed = {row.id: express(row) for row in rows}
    wanted = {row.id for row in rows_to_predict(rows, told.parts)}
    if told.kept:
        wanted = set()
    if told.old:
        wanted -= {name for name in wanted if not is_old(known.get(name, {}), expressed[name])}
    if told.missing:
        wanted -= {name for name, entry in known.items() if "predicted_s" in entry}
    tasks: dict[str, Expressed] = {}
    for name in wanted:
        made = expressed[name]
        if isinstance(made, Expressed):
            tasks.setdefault(key_of(made), made)
    if told.captures:
        _capture(tasks)
        return 0
    found: dict[str, dict[str, Any]] = {}
    for key, result in _all(tasks, told.jobs):
        found[key] = result
        if len(found) % 5 == 0:
            _write(_entries(rows, expressed, found, known))
    _write(_entries(rows, expressed, found, known))
    return 0


def _capture(tasks: dict[str, Expressed]) -> None:
    from gpuscope.errors import GpuscopeError

    for number, key in enumerate(_breadth_first(tasks), 1):
        began = time.monotonic()
        try:
            capture(tasks[key])
        except GpuscopeError as error:
            print(tasks[key].row.id, error)
        took_s = time.monotonic() - began
        print(f"{number:4d}/{len(tasks)}  {took_s:6.1f} s  {tasks[key].row.id}", flush=True)


def _entries(
    rows: Sequence[Row],
    expressed: dict[str, Expressed | NotExpressed],
    found: dict[str, dict[str, Any]],
    known: dict[str, dict[str, Any]],
) -> dict[str, dict[str, Any]]:
    """What is found for each row now, else what was known before."""
    entries = {}
    for row in rows:
        made = expressed[row.id]
        if isinstance(made, NotExpressed):
            entries[row.id] = _entry(row, made, None)
        elif key_of(made) in found:
            entries[row.id] = _entry(row, made, found[key_of(made)])
        elif row.id in known:
            kept = {k: v for k, v in known[row.id].items() if k in _FOUND}
            if kept.get("asked", asked(made)) != asked(made):
                kept["state"] = ""
            entries[row.id] = _entry(row, made, kept)
        if "predicted_s" not in entries.get(row.id, {}) and isinstance(made, Expressed):
            failed = entries.get(row.id, {}).get("failed")
            entries[row.id] = _entry(row, made, {"failed": failed or NOT_RUN})
    return entries


def _all(tasks: dict[str, Expressed], jobs: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every prediction as it is done; prints predicted over measured."""
    from gpuscope.garbage import rare_collection

    order = _breadth_first(tasks)
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, rare_collection, maxtasksperchild=20) as pool:
        families: dict[str, list[tuple[str, Expressed]]] = {}
        for key in order:
            families.setdefault(_family(tasks[key]), []).append((key, tasks[key]))
        done = (one for some in pool.imap_unordered(_task, families.values()) for one in some)
        for number, (key, result) in enumerate(done, 1):
            ratio = result.get("predicted_s", 0.0) / tasks[key].step_s
            print(
                f"{number:4d}/{len(order)}  {ratio:6.3f}  {tasks[key].row.id}"
                f"  {result.get('failed', '')}  {result.get('took_s', '')}",
                flush=True,
            )
            yield key, result


def _breadth_first(tasks: dict[str, Expressed]) -> list[str]:
    """One of every source and hardware, then the next of each; so a run cut short shows all."""
    mixed = sorted(tasks, key=lambda key: hashlib.sha256(tasks[key].row.id.encode()).hexdigest())
    seen: dict[tuple[str, str], int] = {}
    rank = {}
    for key in mixed:
        row = tasks[key].row
        at = seen[row.source, row.hardware] = seen.get((row.source, row.hardware), 0) + 1
        rank[key] = at
    return sorted(mixed, key=lambda key: rank[key])


def _family(made: Expressed) -> str:
    """Rows that differ in device and number of microbatches alone share their captures."""
    few = with_microbatches(made, 2) if microbatches(made) > 2 else made
    return repr((few.workload, few.devices, asdict(few.options)))


def _task(family: Sequence[tuple[str, Expressed]]) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for key, made in family:
        try:
            found.append((key, predict(made)))
        except Exception as error:  # a row that breaks must not stop the others; it is listed
            found.append((key, {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}))
    return found


def _write(entries: dict[str, dict[str, Any]]) -> None:
    from gpuscope.atomic import write_atomically

    write_atomically(RESULTS, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
