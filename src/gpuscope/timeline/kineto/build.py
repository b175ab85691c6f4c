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
from gpuscope.timeline.kineto.table import NO_SPEC, Table
from gpuscope.timeline.kineto.vocabulary import KIND, SORTS, device_kind, host_kind, sort_of
from gpuscope.timeline.nesting import climb, parent_rows
from gpuscope.timeline.types import DEVICE_KINDS, Collective, Events, Ints, Recorded, Step, Timeline

_DEVICE = (
    "row",
    "correlation",
    "external",
    "stream",
    "device",
    "registers",
    "shared",
    "occupancy",
    "nbytes",
    "graph",
    "grid",
    "block",
    "collective",
)
_OPERATOR = ("row", "external", "sequence", "forward_thread", "spec", "collective")
_CALLS = ("row", "correlation", "external")

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
        self._columns = table.events.join(
            ("start_ns", "duration_ns", "name", "category", "pid", "tid")
        )
        self._device = table.device.join(_DEVICE)
        if not len(self._device["row"]):
            self._device["grid"] = self._device["block"] = np.zeros((0, 3), np.int64)
            self._device["occupancy"] = np.zeros(0)
        self._operators = table.operators.join(_OPERATOR)
        self._calls = table.calls.join(_CALLS)
        self._names = list(table.names)

    def build(self) -> Built:
        """Join everything."""
        table, columns = self._table, self._columns
        words = list(table.categories)
        sort = np.array([SORTS.index(sort_of(word)) for word in words] or [0])[columns["category"]]
        windows: tuple[Step, ...] = ()
        if table.is_own:
            drawn = step_rows(table, columns)
            sort[drawn] = SORTS.index("skip")
            windows = own_steps(table, columns, drawn)
            placed = place_own(table, columns)
        else:
            placed = place(table, columns, sort, self._device, self._rank)
        placed = used(placed, sort != SORTS.index("skip"))
        kind = self._kinds(words)
        order, zero = self._order(placed, sort)
        events = self._events(order, placed, kind, zero)
        row_of = np.full(len(sort), -1, np.int64)
        row_of[order] = np.arange(len(order))
        timeline = self._timeline(events, placed, row_of, zero)
        return Built(replace(timeline, steps=windows) if windows else timeline, zero)

    # -- events -----------------------------------------------------------------------------------

    def _kinds(self, words: Sequence[str]) -> Ints:
        """Kind of every row, decided once for each pair of category and name."""
        columns, names = self._columns, self._names
        of_pair = columns["category"] * max(1, len(names)) + columns["name"]
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
        columns = self._columns
        correlation = np.full(len(kind), -1, np.int64)
        if self._table.is_own:
            own = self._table.own.join(("row", "correlation"))
            correlation[own["row"]] = own["correlation"]
        for part in (self._calls, self._device):
            if len(part["row"]) and not self._table.is_own:
                numbers = part["correlation"]
                correlation[part["row"]] = np.where(numbers > 0, numbers, -1)
        nothing = np.full(len(order), -1, np.int64)
        return Events(
            start_ns=columns["start_ns"][order] - zero,
            duration_ns=columns["duration_ns"][order],
            name=columns["name"][order],
            kind=kind[order],
            lane=placed.lane[order],
            op=nothing,
            kernel=nothing,
            correlation=correlation[order],
        )

    # -- what belongs to what ---------------------------------------------------------------------

    def _timeline(self, events: Events, placed: Placed, row_of: Ints, zero: int) -> Timeline:
        table, names = self._table, self._names
        on_host = np.array([lane.kind == "host" for lane in placed.lanes] or [True], bool)
        parent = parent_rows(events, on_host[events.lane] & (events.kind >= DEVICE_KINDS))
        device = np.flatnonzero(events.kind < DEVICE_KINDS)
        events, launch = launches(events, device, on_host)
        own_external = self._spread(self._operators, "external", row_of)
        operator = operators_of(
            events,
            parent,
            launch,
            device,
            own_external,
            self._spread(self._device, "external", row_of)[device],
        )
        op, ops = self._ops(events, parent, device, operator, row_of)
        collective, sequence, collectives = self._collectives(
            events, parent, device, launch, row_of
        )
        recorded = self._recorded(events, device, row_of, placed)
        graph = recorded["graph"]
        from_graph = (launch >= 0) & self._graph_calls()[events.name[np.maximum(launch, 0)]]
        recorded["graph"] = np.where((graph < 0) & from_graph, 0, graph)
        return Timeline(
            names=tuple(names),
            lanes=placed.lanes,
            events=replace(events, op=op),
            counters=(*memory_counters(table, zero), *value_counters(table, zero)),
            steps=steps(events, names, placed.lanes),
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

    def _spread(self, part: dict[str, Any], name: str, row_of: Ints) -> Any:
        """A column of some rows as one of all events; -1 elsewhere."""
        values = part[name]
        count = int((row_of >= 0).sum())
        found = np.full((count, *values.shape[1:]), -1, values.dtype)
        if len(part["row"]):
            at = row_of[part["row"]]
            found[at[at >= 0]] = values[at >= 0]
        return found

    def _ops(
        self, events: Events, parent: Ints, device: Ints, operator: Ints, row_of: Ints
    ) -> tuple[Ints, tuple[Op, ...]]:
        """Distinct operators, and each event's."""
        if self._table.is_own:
            return own_ops(self._table, row_of, len(events))
        names = self._names
        spec = self._spread(self._operators, "spec", row_of)
        sequence = self._spread(self._operators, "sequence", row_of)
        phase = calls.phases(events, names, parent)
        phase = calls.loads(events, names, phase, parent, device, operator)
        module, paths = calls.modules(events, names, parent)
        module = calls.differentiated(events, phase, sequence, parent, module)
        specs = [NO_SPEC, *self._table.specs]
        op, ops = calls.distinct_ops(events, names, spec + 1, specs, phase, module, paths)
        op[device] = np.where(operator >= 0, op[np.maximum(operator, 0)], -1)
        return op, ops

    def _recorded(
        self, events: Events, device: Ints, row_of: Ints, placed: Placed
    ) -> dict[str, Any]:
        """The columns of `Recorded` that stand in the file."""
        part = self._device
        found = {
            field: self._spread(part, name, row_of)[device]
            for field, name in (
                ("grid", "grid"),
                ("block", "block"),
                ("registers", "registers"),
                ("shared_bytes", "shared"),
                ("nbytes", "nbytes"),
                ("graph", "graph"),
            )
        }
        percent = self._spread(part, "occupancy", row_of)[device]
        found["occupancy"] = np.where(percent >= 0, percent / 100.0, np.nan)
        stream = np.full(len(events), -1, np.int64)
        stream[row_of[row_of >= 0]] = placed.stream[row_of >= 0]
        found["stream"] = stream[device]
        return found

    def _graph_calls(self) -> Any:
        return np.fromiter(("GraphLaunch" in name for name in self._names), bool, len(self._names))

    def _collectives(
        self, events: Events, parent: Ints, device: Ints, launch: Ints, row_of: Ints
    ) -> tuple[Ints, Ints, tuple[Collective, ...]]:
        """Which collective each device event carries out, with its number within its group."""
        own = self._spread(self._device, "collective", row_of)[device]
        given = self._spread(self._operators, "collective", row_of)
        above = climb(parent, given >= 0, launch)
        text = np.where(own >= 0, own, np.where(above >= 0, given[np.maximum(above, 0)], -1))
        mark = climb(parent, self._marks(events), launch)
        reader = CollectiveReader(list(self._table.collectives), self._groups)
        spec = self._spread(self._operators, "spec", row_of)
        specs = list(self._table.specs)
        for at in np.flatnonzero(events.kind[device] == KIND["communication"]).tolist():
            if text[at] >= 0:
                reader.told(at, int(text[at]))
                continue
            name = self._names[int(events.name[device[at]])]
            row = int(mark[at])
            if row >= 0:
                reader.marked(at, self._names[int(events.name[row])], int(spec[row]), specs)
            else:
                reader.named(at, name)
        return reader.columns(len(device))

    def _marks(self, events: Events) -> Any:
        """The ranges that c10d opens around its calls: "nccl:all_reduce"."""
        by_name = np.fromiter((is_mark(name) for name in self._names), bool, len(self._names))
        return by_name[events.name] & (events.kind >= DEVICE_KINDS)


def distinct_keys(keys: Ints, bound: int) -> tuple[Ints, Ints]:
    """`np.unique` with the inverse, for keys from 0 to below a bound; unsorted if it is low."""
    if bound > max(1 << 16, len(keys)):
        found, inverse = np.unique(keys, return_inverse=True)
        return found, inverse.reshape(-1)
    there = np.zeros(bound, bool)
    there[keys] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[keys]
