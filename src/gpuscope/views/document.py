"""A run as plain data: the stable, versioned JSON document (docs/json.md describes it).

All figures are in SI base units with the unit in their name; a reading that is missing is null.
The timeline is stored as columns of equal length. `gpuscope.views.document_reader` turns a
document back into a `Run`.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuscope import __version__
from gpuscope.analysis.grouping import group_key
from gpuscope.atomic import write_atomically
from gpuscope.cost.types import Kernel
from gpuscope.program.types import Op, Program, TensorSpec
from gpuscope.run import SCHEMA_VERSION, Run
from gpuscope.timeline.types import EVENT_KINDS, Counter, Ints, Messages, Recorded, Timeline
from gpuscope.views.figures import figures

MAX_EVENTS = 200_000
"""Most timeline events of one document; of more, the longest are kept and the rest is counted."""

EVENT_COLUMNS: tuple[str, ...] = (
    "start_ns", "duration_ns", "name", "kind", "lane", "op", "kernel", "correlation",
)  # fmt: skip

Json = dict[str, Any]

if TYPE_CHECKING:
    from gpuscope.analysis.compare import Comparison
    from gpuscope.views.sweep import Worth


def run_document(run: Run, *, timeline: bool = True, max_events: int = MAX_EVENTS) -> Json:
    """Return a run as plain values that `json.dumps` takes.

    Args:
        run: predicted or measured.
        timeline: False leaves the timeline out (null).
        max_events: most events to store.
    """
    return {
        "schema": "gpuscope.run",
        "version": SCHEMA_VERSION,
        "gpuscope_version": __version__,
        **_run_fields(run),
        "figures": plain(figures(run)),
        "program": _program(run.program),
        "analysis": plain(run.analysis),
        "timeline": _timeline(run.timeline, max_events) if timeline else None,
    }


def runs_document(runs: Sequence[Run]) -> Json:
    """Return several runs (one workload on several devices) as one document."""
    return {
        "schema": "gpuscope.runs",
        "version": SCHEMA_VERSION,
        "gpuscope_version": __version__,
        "runs": [run_document(run) for run in runs],
    }


def sweep_document(
    field: str, points: Sequence[tuple[float, Run]], worth: Sequence[Worth] = ()
) -> Json:
    """Return a sweep: the value of the field and the run, without its timeline, at each point.

    Args:
        field: what was varied.
        points: value and run.
        worth: what more of each resource of the device brings.
    """
    return {
        "schema": "gpuscope.sweep",
        "version": SCHEMA_VERSION,
        "gpuscope_version": __version__,
        "field": field,
        "points": [
            {"value": value, "run": run_document(run, timeline=False)} for value, run in points
        ],
        "worth": [{"resource": each.resource, "elasticity": each.elasticity} for each in worth],
    }


def comparison_document(comparison: Comparison) -> Json:
    """Return where two runs differ."""
    return {
        "schema": "gpuscope.comparison",
        "version": SCHEMA_VERSION,
        "gpuscope_version": __version__,
        **plain(comparison),
    }


def dumps(document: Json) -> str:
    """Return strict JSON: no NaN, no Infinity."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def write_document(document: Json, path: str | Path) -> None:
    """Write a document as JSON, compressed where the name ends in ".gz"; in full or not at all."""
    text = dumps(document) + "\n"
    if str(path).endswith(".gz"):
        # No time of writing in it: equal documents make equal files.
        write_atomically(path, gzip.compress(text.encode("utf-8"), 6, mtime=0))
    else:
        write_atomically(path, text)


def plain(value: object) -> Any:
    """Return dataclasses, mappings and sequences as dicts and lists; non-finite numbers as None."""
    if isinstance(value, bool | str | int) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, np.generic):
        return plain(value.item())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Sequence | set | frozenset):
        return [plain(item) for item in value]
    return str(value)


def _run_fields(run: Run) -> Json:
    own = [f.name for f in fields(run) if f.name not in ("timeline", "analysis", "program")]
    return {name: plain(getattr(run, name)) for name in own}


def _program(program: Program | None) -> Json | None:
    if program is None:
        return None
    return {
        "name": program.name,
        "task": program.task,
        "dtype": program.dtype,
        "compiled": program.compiled,
        "parameters": program.parameters,
        "operators": len(program.ops),
        "samples": program.samples,
        "tokens": program.tokens,
        "settings": plain(program.settings),
        "unsupported": list(program.unsupported),
        "first_step_extra_bytes": program.first_step_extra_bytes,
        "capture_s": program.capture_s,
    }


def _timeline(timeline: Timeline, max_events: int) -> Json:
    events, total = timeline.events, len(timeline.events)
    keep = _kept(events.duration_ns, max_events)
    kernel, kernels = _distinct_kernels(timeline, events.kernel[keep])
    columns = {name: getattr(events, name)[keep].tolist() for name in EVENT_COLUMNS}
    columns["kernel"] = kernel
    return {
        "origin": timeline.origin,
        "notes": list(timeline.notes),
        "names": list(timeline.names),
        "kinds": list(EVENT_KINDS),
        "lanes": plain(timeline.lanes),
        "steps": plain(timeline.steps),
        "events_total": total,
        "truncation": ""
        if len(keep) == total
        else (f"The {len(keep)} longest of {total} events are kept."),
        "events": columns,
        "counters": [_counter(counter) for counter in timeline.counters],
        "kernels": kernels,
        "ops": _ops(timeline.ops),
        "collectives": plain(timeline.collectives),
        "sources": plain(timeline.sources),
        "recorded": _recorded(timeline.recorded, keep, total),
        "messages": _messages(timeline.messages, keep, total),
        "stands_for": {str(rank): list(ranks) for rank, ranks in timeline.stands_for.items()},
    }


def _recorded(recorded: Recorded | None, keep: Ints, total: int) -> Json | None:
    """What a recording says of its device events, for the events that are kept.

    Rows of `Events` are renumbered; a launch or operator that is not kept is -1. A NaN is null.
    """
    if recorded is None:
        return None
    row = np.full(total + 1, -1, np.int64)  # the last one stands for -1, unknown
    row[keep] = np.arange(len(keep))
    kept = row[recorded.event] >= 0
    columns: Json = {}
    for field in fields(Recorded):
        column = getattr(recorded, field.name)[kept]
        if field.name in ("event", "launch", "operator"):
            column = row[column]
        columns[field.name] = plain(column)
    return columns


def _messages(messages: Messages | None, keep: Ints, total: int) -> Json | None:
    """Which collective call the communication events of a prediction are, of those kept."""
    if messages is None:
        return None
    row = np.full(total, -1, np.int64)
    row[keep] = np.arange(len(keep))
    kept = row[messages.event] >= 0
    return {
        "event": row[messages.event[kept]].tolist(),
        "collective": messages.collective[kept].tolist(),
        "sequence": messages.sequence[kept].tolist(),
    }


def _kept(duration_ns: Ints, most: int) -> Ints:
    """Rows to keep, in their order: the longest, so that the picture stays the same."""
    if len(duration_ns) <= most:
        return np.arange(len(duration_ns), dtype=np.int64)
    longest = np.argsort(-duration_ns, kind="stable")[:most]
    return np.sort(longest)


def _counter(counter: Counter) -> Json:
    return {
        "name": counter.name,
        "unit": counter.unit,
        "time_ns": counter.time_ns.tolist(),
        "value": plain(counter.value),
    }


def _distinct_kernels(timeline: Timeline, column: Ints) -> tuple[list[int], list[Json]]:
    """Equal kernels once: the column renumbered, and the table. `op` is in the events."""
    number: dict[str, int] = {}
    table: list[Json] = []
    renumbered: dict[int, int] = {-1: -1}
    for index in dict.fromkeys(column.tolist()):
        if index < 0:
            continue
        kernel = timeline.kernels[index]
        if not isinstance(kernel, Kernel):
            raise TypeError(f"a timeline's kernels are Kernel, not {type(kernel).__name__}")
        row = plain(kernel)
        row.pop("op", None)
        key = json.dumps(row, sort_keys=True)
        if key not in number:
            number[key] = len(table)
            table.append({**row, "group": group_key(kernel)})
        renumbered[index] = number[key]
    return [renumbered[index] for index in column.tolist()], table


def _ops(ops: Sequence[object]) -> Json:
    """Operators as columns; names, modules and signatures are tables that the columns index."""
    names, modules, signatures = _Table(), _Table(), _Table()
    columns: dict[str, list[Any]] = {"name": [], "module": [], "phase": [], "signature": []}
    columns |= {"repeat": [], "recomputed": [], "stream": [], "sync": []}
    for op in ops:
        if not isinstance(op, Op):
            raise TypeError(f"a timeline's operators are Op, not {type(op).__name__}")
        columns["name"].append(names.number(op.name))
        columns["module"].append(modules.number(op.module))
        columns["phase"].append(op.phase)
        columns["signature"].append(signatures.number(_signature(op)))
        columns["repeat"].append(op.repeat)
        columns["recomputed"].append(op.recomputed)
        columns["stream"].append(op.stream)
        columns["sync"].append(op.sync)
    tables = {"names": names.rows, "modules": modules.rows}
    return {**tables, "signatures": [_shapes(s) for s in signatures.rows], "columns": columns}


class _Table:
    """Distinct values in order of appearance."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._numbers: dict[object, int] = {}

    def number(self, value: object) -> int:
        """The row of a value, added where it is new."""
        if value not in self._numbers:
            self._numbers[value] = len(self.rows)
            self.rows.append(value)
        return self._numbers[value]


_Spec = tuple[tuple[int, ...], tuple[int, ...], str, str]
_Signature = tuple[tuple[_Spec, ...], tuple[_Spec, ...]]


def _signature(op: Op) -> _Signature:
    def key(spec: TensorSpec) -> _Spec:
        return spec.shape, spec.stride, spec.dtype, spec.device

    return tuple(map(key, op.inputs)), tuple(map(key, op.outputs))


def _shapes(signature: _Signature) -> Json:
    def rows(specs: tuple[_Spec, ...]) -> list[Json]:
        return [
            {"shape": list(shape), "stride": list(stride), "dtype": dtype, "device": device}
            for shape, stride, dtype, device in specs
        ]

    return {"inputs": rows(signature[0]), "outputs": rows(signature[1])}
