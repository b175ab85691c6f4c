"""A timeline's part of a saved document, checked: its columns are whole and point inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Literal

import msgspec
import numpy as np

from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.document.typed import Int64, MisfitError, check_lengths, check_range, typed
from gpuscope.program.types import Op, Phase, TensorSpec
from gpuscope.timeline.types import (
    EVENT_KINDS,
    Collective,
    Counter,
    Events,
    Lane,
    Messages,
    Recorded,
    Source,
    Step,
    Timeline,
)

NO_TIMELINE = Timeline((), (), Events(*(np.zeros(0, np.int64) for _ in fields(Events))))
"""Of a run that was saved without one."""


class _Signature(msgspec.Struct, frozen=True):
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


class _OpColumns(msgspec.Struct, frozen=True):
    """Columns, of which `_TABLES` are numbers of rows; what an old document lacks is unset."""

    name: list[Int64]
    module: list[Int64]
    phase: list[Phase]
    signature: list[Int64]
    repeat: list[Int64] | msgspec.UnsetType = msgspec.UNSET
    recomputed: list[bool] | msgspec.UnsetType = msgspec.UNSET
    stream: list[Int64] | msgspec.UnsetType = msgspec.UNSET
    sync: list[str] | msgspec.UnsetType = msgspec.UNSET
    site: list[Int64] | msgspec.UnsetType = msgspec.UNSET


class _Ops(msgspec.Struct, frozen=True):
    names: list[str]
    modules: list[str]
    signatures: list[_Signature]
    columns: _OpColumns
    sites: list[str] = []


_TABLES = {"name": "names", "module": "modules", "signature": "signatures", "site": "sites"}
"""Columns of operators that index a table, and the table."""


class _SavedTimeline(msgspec.Struct, frozen=True):
    """A timeline as `gpuscope.run.timeline_document` writes it, and as older versions did."""

    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    events: Events
    counters: tuple[Counter, ...]
    steps: tuple[Step, ...]
    kernels: tuple[Kernel, ...]
    ops: _Ops
    origin: Literal["predicted", "measured"]
    notes: tuple[str, ...]
    truncation: str
    recorded: Recorded | None = None
    collectives: tuple[Collective, ...] = ()
    sources: tuple[Source, ...] = ()
    messages: Messages | None = None
    stands_for: Mapping[int, tuple[int, ...]] = {}


def read_timeline(data: Any, place: str = "timeline") -> Timeline:
    """Turn the timeline of a document back into a `Timeline`; null is one without events.

    Args:
        data: plain data; texts may be `Text`.
        place: where it stands in the document, for errors.

    Raises:
        MisfitError: something is missing, of another type, or points outside of its table.
    """
    if data is None:
        return NO_TIMELINE
    if isinstance(data, dict) and isinstance(kernels := data.get("kernels"), list):
        # A kernel's operator is in the events.
        whole = [{**each, "op": -1} if isinstance(each, dict) else each for each in kernels]
        data = {**data, "kernels": whole}
    found = typed(_SavedTimeline, data, place)
    _check_columns(found, place)
    return Timeline(
        names=found.names,
        lanes=found.lanes,
        events=found.events,
        counters=found.counters,
        steps=found.steps,
        kernels=found.kernels,
        ops=_read_ops(found.ops, f"{place}.ops"),
        origin=found.origin,
        notes=(*found.notes, found.truncation) if found.truncation else found.notes,
        recorded=_with_axes(found.recorded, f"{place}.recorded"),
        collectives=found.collectives,
        sources=found.sources,
        messages=found.messages,
        stands_for=found.stands_for,
    )


def _check_columns(found: _SavedTimeline, place: str) -> None:
    """Columns are equally long, and what they index is there."""
    events, calls = len(found.events), len(found.collectives)
    indexed = {
        "events": {
            "name": (0, len(found.names)),
            "kind": (0, len(EVENT_KINDS)),
            "lane": (0, len(found.lanes)),
            "op": (-1, len(found.ops.columns.name)),
            "kernel": (-1, len(found.kernels)),
            "duration_ns": (0, 2**62),
        },
        "recorded": {
            "event": (0, events),
            "launch": (-1, events),
            "operator": (-1, events),
            "collective": (-1, calls),
        },
        "messages": {"event": (0, events), "collective": (-1, calls)},
    }
    for table, limits in indexed.items():
        columns = getattr(found, table)
        if columns is None:
            continue
        every = {field.name: getattr(columns, field.name) for field in fields(columns)}
        check_lengths(every, f"{place}.{table}")
        for name, (least, end) in limits.items():
            check_range(every[name], least, end, f"{place}.{table}.{name}")
    for number, each in enumerate(found.counters):
        both = {"time_ns": each.time_ns, "value": each.value}
        check_lengths(both, f"{place}.counters[{number}]")


def _with_axes(recorded: Recorded | None, place: str) -> Recorded | None:
    """Launch dimensions as rows of three, also where there is none."""
    if recorded is None:
        return None
    for name in ("grid", "block"):
        if (column := getattr(recorded, name)).size != 3 * len(column):
            raise MisfitError(f"{place}.{name}", Text("rows of three expected"))
    return replace(recorded, grid=recorded.grid.reshape(-1, 3), block=recorded.block.reshape(-1, 3))


def _read_ops(saved: _Ops, place: str) -> tuple[Op, ...]:
    columns: dict[str, list[Any]] = {
        name: column
        for name, column in msgspec.structs.asdict(saved.columns).items()
        if column is not msgspec.UNSET
    }
    check_lengths(columns, f"{place}.columns")
    for name, table in _TABLES.items():
        rows = getattr(saved, table)
        if name in columns:
            check_range(columns[name], 0, len(rows), f"{place}.columns.{name}")
            columns[name] = [rows[number] for number in columns[name]]
    ops = []
    for index, values in enumerate(zip(*columns.values(), strict=True)):
        row = dict(zip(columns, values, strict=True))
        own = row.pop("signature")
        ops.append(Op(index=index, inputs=own.inputs, outputs=own.outputs, **row))
    return tuple(ops)
