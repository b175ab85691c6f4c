"""A timeline as plain data: events as columns of equal length, the rest as tables they index.

A thin one is as little as a picture of it needs: of one rank its lanes, and of each event when,
what, of which operator and module. Begins are differences to the one before, so that they compress.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from gpuscope.analysis.grouping import group_key
from gpuscope.cost.types import Kernel
from gpuscope.document.plain import Json, plain
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.program.types import Op, TensorSpec
from gpuscope.timeline.types import (
    DEVICE_KINDS,
    EVENT_KINDS,
    Counter,
    Ints,
    Messages,
    Recorded,
    Timeline,
)

MAX_EVENTS = 200_000
"""Most timeline events of one document; of more, the longest are kept and the rest is counted."""

EVENT_COLUMNS: tuple[str, ...] = (
    "start_ns",
    "duration_ns",
    "name",
    "kind",
    "lane",
    "op",
    "kernel",
    "correlation",
)


def timeline_document(timeline: Timeline, max_events: int = MAX_EVENTS) -> Json:
    """Return a timeline as plain values, its texts still `Text`; of the events the longest."""
    events, total = timeline.events, len(timeline.events)
    keep = kept_events(events.duration_ns, max_events)
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
        else Text(
            "The {kept} longest of {total} events are kept.",
            kept=Number(len(keep), ","),
            total=Number(total, ","),
        ),
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


def kept_events(duration_ns: Ints, most: int) -> Ints:
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
    by_object: dict[int, int] = {}
    for index in dict.fromkeys(column.tolist()):
        if index < 0:
            continue
        kernel = timeline.kernels[index]
        if not isinstance(kernel, Kernel):
            raise TypeError(f"a timeline's kernels are Kernel, not {type(kernel).__name__}")
        if id(kernel) in by_object:
            renumbered[index] = by_object[id(kernel)]
            continue
        row = plain(kernel)
        row.pop("op", None)
        key = json.dumps(row, sort_keys=True)
        if key not in number:
            number[key] = len(table)
            table.append({**row, "group": group_key(kernel)})
        renumbered[index] = by_object[id(kernel)] = number[key]
    return [renumbered[index] for index in column.tolist()], table


def _ops(ops: Sequence[object]) -> Json:
    """Operators as columns; names, modules and signatures are tables that the columns index."""
    names, modules, signatures, sites = _Table(), _Table(), _Table(), _Table()
    columns: dict[str, list[Any]] = {"name": [], "module": [], "phase": [], "signature": []}
    columns |= {"repeat": [], "recomputed": [], "stream": [], "sync": [], "site": []}
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
        columns["site"].append(sites.number(op.site))
    tables = {"names": names.rows, "modules": modules.rows, "sites": sites.rows}
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


# -- thin ---------------------------------------------------------------------------------------


THIN_EVENTS = 12_000
"""Most events of a thin timeline; of more, the longest are kept."""


def thin_timeline(timeline: Timeline, max_events: int = THIN_EVENTS) -> dict[str, Any]:
    """Return one rank's lanes and events as columns of numbers and the tables that they index.

    Args:
        timeline: of a step; of several ranks the first with device work is taken.
        max_events: most events to keep.
    """
    events = timeline.events
    on_device = events.lane[events.kind < DEVICE_KINDS]
    ranks = sorted({timeline.lanes[lane].rank for lane in np.unique(on_device).tolist()})
    lanes = [at for at, lane in enumerate(timeline.lanes) if lane.rank in ranks[:1]]
    rows = np.flatnonzero(np.isin(events.lane, lanes) & (events.kind != EVENT_KINDS.index("step")))
    total = len(rows)
    rows = rows[kept_events(events.duration_ns[rows], max_events)]
    rows = rows[np.argsort(events.start_ns[rows], kind="stable")]
    names, families, ops = _Values(), _Values(), _Values()
    place = {lane: at for at, lane in enumerate(lanes)}
    return {
        "lanes": [
            {"name": lane.name, "kind": lane.kind, "rank": lane.rank}
            for lane in (timeline.lanes[at] for at in lanes)
        ],
        "steps": [
            {"start_ns": step.start_ns, "end_ns": step.end_ns, "rank": step.rank}
            for step in timeline.steps
            if step.rank in ranks[:1]
        ],
        "kinds": list(EVENT_KINDS),
        "start_ns": np.diff(events.start_ns[rows], prepend=0).tolist(),
        "duration_ns": events.duration_ns[rows].tolist(),
        "lane": [place[lane] for lane in events.lane[rows].tolist()],
        "kind": events.kind[rows].tolist(),
        "name": names.of(timeline.names[name] for name in events.name[rows].tolist()),
        "family": families.of(_family(timeline, at) for at in events.kernel[rows].tolist()),
        "op": ops.of(_operator(timeline, at) for at in events.op[rows].tolist()),
        "correlation": events.correlation[rows].tolist(),
        "left_out": total - len(rows),
        "names": names.table,
        "families": families.table,
        "ops": ops.table,
    }


def _family(timeline: Timeline, at: int) -> str | None:
    kernel = timeline.kernels[at] if at >= 0 else None
    return kernel.kind if isinstance(kernel, Kernel) else None


def _operator(timeline: Timeline, at: int) -> tuple[str, str, str] | None:
    """Name, module and phase."""
    op = timeline.ops[at] if at >= 0 else None
    return (op.name, op.module, op.phase) if isinstance(op, Op) else None


class _Values:
    """Numbers for values, and the table that they index; None is -1."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}

    def of(self, values: Iterable[object]) -> list[int]:
        known = self._known
        return [-1 if v is None else known.setdefault(v, len(known)) for v in values]

    @property
    def table(self) -> list[object]:
        return list(self._known)
