"""Joins a file's columns into one timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuscope.program.types import Op
from gpuscope.timeline.kineto import operators as calls
from gpuscope.timeline.kineto.collectives import CollectiveReader, is_mark
from gpuscope.timeline.kineto.counters import memory_counters, value_counters
from gpuscope.timeline.kineto.joins import launches, operators_of, steps
from gpuscope.timeline.kineto.lanes import Placed, place, used
from gpuscope.timeline.kineto.own import OWN_CATEGORIES, own_ops, own_steps, place_own, step_rows
from gpuscope.timeline.kineto.table import NO_SPEC, Columns, Table
from gpuscope.timeline.kineto.vocabulary import KIND, SORTS, device_kind, host_kind, sort_of
from gpuscope.timeline.nesting import climb, parent_rows
from gpuscope.timeline.types import (
    DEVICE_KINDS,
    Collective,
    Events,
    Ints,
    Lane,
    Recorded,
    Step,
    Timeline,
)

_EVENT = ("start_ns", "duration_ns", "name", "category", "pid", "tid")

Groups = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Built:
    """A timeline without sources, and the time of its zero on the file's clock."""

    timeline: Timeline
    zero_ns: int


class Builder:
    """Builds the timeline of one rank.

    Args:
        table: all events.
        rank: which rank it is.
        groups: process groups that the header describes.
    """

    def __init__(self, table: Table, rank: int, groups: Groups) -> None:
        self._table, self._rank, self._groups = table, rank, groups
        # A long recording's columns are large: each is kept for as long as it is needed.
        self._columns = {name: table.events.take(name) for name in _EVENT}
        self._names = list(table.names)

    def build(self) -> Built:
        """Join everything; the table's columns of events are then gone."""
        table, columns = self._table, self._columns
        words = list(table.categories)
        sorts = np.array([SORTS.index(sort_of(word)) for word in words] or [0], np.int8)
        sort = sorts[columns["category"]]
        windows: tuple[Step, ...] = ()
        if table.is_own:
            drawn = step_rows(table, columns)
            sort[drawn] = SORTS.index("skip")
            windows = own_steps(table, columns, drawn)
            placed = place_own(table, columns)
        else:
            device = table.device.join(("row", "device", "stream"))
            placed = place(table, columns, sort, device, self._rank)
        del columns["pid"], columns["tid"]
        placed = used(placed, sort != SORTS.index("skip"))
        order, zero = self._order(placed, sort)
        row_of = np.full(len(sort), -1, np.int64)
        row_of[order] = np.arange(len(order))
        events = self._events(order, placed, self._kinds(words), zero)
        stream = placed.stream[order]
        del order
        timeline = self._timeline(events, placed.lanes, stream, row_of, zero)
        return Built(replace(timeline, steps=windows) if windows else timeline, zero)

    # -- events -----------------------------------------------------------------------------------

    def _kinds(self, words: Sequence[str]) -> Ints:
        """Kind of every row, decided once for each pair of category and name."""
        columns, names = self._columns, self._names
        of_pair = columns.pop("category") * max(1, len(names)) + columns["name"]
        pairs, inverse = distinct_keys(of_pair, len(words) * max(1, len(names)))
        found = np.empty(len(pairs), np.int64)
        for i, pair in enumerate(pairs.tolist()):
            word, name = words[pair // len(names)], names[pair % len(names)]
            sort = sort_of(word)
            if self._table.is_own and word in OWN_CATEGORIES:
                found[i] = KIND[word]
            elif sort in ("device", "on_device"):
                found[i] = device_kind(word, name)
            else:
                found[i] = host_kind(sort, name)
        return found[inverse] if len(pairs) else np.zeros(0, np.int64)

    def _order(self, placed: Placed, sort: Ints) -> tuple[Ints, int]:
        """Rows by start, then lane, the longer first; and the earliest start."""
        start, duration = self._columns["start_ns"], self._columns["duration_ns"]
        kept = np.flatnonzero(sort != SORTS.index("skip"))
        if not len(kept):
            return kept, 0
        zero = int(start[kept].min())
        if self._table.is_own:
            zero = min(zero, 0)
        keys = (-duration[kept], placed.lane[kept], start[kept])
        return kept[np.lexsort(keys)], zero

    def _events(self, order: Ints, placed: Placed, kind: Ints, zero: int) -> Events:
        columns, table = self._columns, self._table
        correlation = np.full(len(kind), -1, np.int64)
        if table.is_own:
            correlation[table.own.column("row")] = table.own.column("correlation")
        else:
            for part in (table.calls, table.device):
                numbers = part.take("correlation")
                correlation[part.column("row")] = np.where(numbers > 0, numbers, -1)
        nothing = np.full(len(order), -1, np.int64)
        return Events(
            start_ns=columns.pop("start_ns")[order] - zero,
            duration_ns=columns.pop("duration_ns")[order],
            name=columns.pop("name")[order],
            kind=kind[order],
            lane=placed.lane[order],
            op=nothing,
            kernel=nothing,
            correlation=correlation[order],
        )

    # -- what belongs to what ---------------------------------------------------------------------

    def _timeline(
        self, events: Events, lanes: tuple[Lane, ...], stream: Ints, row_of: Ints, zero: int
    ) -> Timeline:
        table, names = self._table, self._names
        on_host = np.array([lane.kind == "host" for lane in lanes] or [True], bool)
        parent = parent_rows(events, on_host[events.lane] & (events.kind >= DEVICE_KINDS))
        device = np.flatnonzero(events.kind < DEVICE_KINDS)
        told = _rows_of(table.device, row_of, device, len(events))
        events, launch = launches(events, device, on_host)
        operator = operators_of(
            events,
            parent,
            launch,
            device,
            self._of_operators("external", row_of, len(events)),
            _told(table.device, "external", told),
        )
        op, ops = self._ops(events, parent, device, operator, row_of)
        collective, sequence, collectives = self._collectives(
            events, parent, device, launch, told, row_of
        )
        recorded = self._recorded(told, stream[device])
        graph = recorded["graph"]
        from_graph = (launch >= 0) & self._graph_calls()[events.name[np.maximum(launch, 0)]]
        recorded["graph"] = np.where((graph < 0) & from_graph, 0, graph)
        return Timeline(
            names=tuple(names),
            lanes=lanes,
            events=replace(events, op=op),
            counters=(*memory_counters(table, zero), *value_counters(table, zero)),
            steps=steps(events, names, lanes),
            ops=ops,
            origin="measured",
            recorded=Recorded(
                event=device,
                launch=launch,
                operator=operator,
                collective=collective,
                sequence=sequence,
                **recorded,
            ),
            collectives=collectives,
        )

    def _of_operators(self, name: str, row_of: Ints, count: int) -> Ints:
        """What is told of operators as a column of all events; -1 for others."""
        found = np.full(count, -1, np.int64)
        at = row_of[self._table.operators.column("row")]
        found[at[at >= 0]] = self._table.operators.column(name)[at >= 0]
        return found

    def _ops(
        self, events: Events, parent: Ints, device: Ints, operator: Ints, row_of: Ints
    ) -> tuple[Ints, tuple[Op, ...]]:
        """Distinct operators, and each event's."""
        if self._table.is_own:
            return own_ops(self._table, row_of, len(events))
        names = self._names
        phase = calls.phases(events, names, parent)
        phase = calls.loads(events, names, phase, parent, device, operator)
        module, paths = calls.modules(events, names, parent)
        sequence = self._of_operators("sequence", row_of, len(events))
        module = calls.differentiated(events, phase, sequence, parent, module)
        del sequence
        specs = [NO_SPEC, *self._table.specs]
        spec = self._of_operators("spec", row_of, len(events)) + 1
        op, ops = calls.distinct_ops(events, names, spec, specs, phase, module, paths)
        op[device] = np.where(operator >= 0, op[np.maximum(operator, 0)], -1)
        return op, ops

    def _recorded(self, told: Ints, stream: Ints) -> dict[str, Any]:
        """The columns of `Recorded` that stand in the file."""
        part = self._table.device
        found = {
            field: _told(part, name, told)
            for field, name in (
                ("grid", "grid"),
                ("block", "block"),
                ("registers", "registers"),
                ("shared_bytes", "shared"),
                ("nbytes", "nbytes"),
                ("graph", "graph"),
            )
        }
        percent = _told(part, "occupancy", told)
        found["occupancy"] = np.where(percent >= 0, percent / 100.0, np.nan)
        found["stream"] = stream
        return found

    def _graph_calls(self) -> Any:
        return np.fromiter(("GraphLaunch" in name for name in self._names), bool, len(self._names))

    def _collectives(
        self, events: Events, parent: Ints, device: Ints, launch: Ints, told: Ints, row_of: Ints
    ) -> tuple[Ints, Ints, tuple[Collective, ...]]:
        """Which collective each device event carries out, with its number within its group."""
        reader = CollectiveReader(list(self._table.collectives), self._groups)
        talks = np.flatnonzero(events.kind[device] == KIND["communication"])
        if not len(talks):
            return reader.columns(len(device))
        own = _told(self._table.device, "collective", told[talks])
        given = self._of_operators("collective", row_of, len(events))
        above = climb(parent, given >= 0, launch[talks])
        text = np.where(own >= 0, own, np.where(above >= 0, given[np.maximum(above, 0)], -1))
        mark = climb(parent, self._marks(events), launch[talks])
        spec = self._of_operators("spec", row_of, len(events))
        specs = list(self._table.specs)
        for at, number, row in zip(talks.tolist(), text.tolist(), mark.tolist(), strict=True):
            if number >= 0:
                reader.told(at, number)
            elif row >= 0:
                reader.marked(at, self._names[int(events.name[row])], int(spec[row]), specs)
            else:
                reader.named(at, self._names[int(events.name[device[at]])])
        return reader.columns(len(device))

    def _marks(self, events: Events) -> Any:
        """The ranges that c10d opens around its calls: "nccl:all_reduce"."""
        by_name = np.fromiter((is_mark(name) for name in self._names), bool, len(self._names))
        return by_name[events.name] & (events.kind >= DEVICE_KINDS)


def _rows_of(part: Columns, row_of: Ints, device: Ints, count: int) -> Ints:
    """Which row of the table's each device event is; -1 where it has none."""
    found = np.full(count, -1, np.int64)
    at = row_of[part.column("row")]
    found[at[at >= 0]] = np.flatnonzero(at >= 0)
    return found[device]


def _told(part: Columns, name: str, rows: Ints) -> Any:
    """A column of the table's by its rows; -1 where there is none."""
    values = part.column(name)
    if not len(values):
        shape = (len(rows), 3) if name in ("grid", "block") else (len(rows),)
        return np.full(shape, -1, np.int64)
    found = values[np.maximum(rows, 0)]
    found[rows < 0] = -1
    return found


def distinct_keys(keys: Ints, bound: int) -> tuple[Ints, Ints]:
    """`np.unique` with the inverse, for keys from 0 to below a bound; unsorted if it is low."""
    if bound > max(1 << 16, len(keys)):
        found, inverse = np.unique(keys, return_inverse=True)
        return found, inverse.reshape(-1)
    there = np.zeros(bound, bool)
    there[keys] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[keys]
