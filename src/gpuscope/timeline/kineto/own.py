"""Reads back the traces that gpuscope itself writes (see `gpuscope.timeline.perfetto`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuscope.program.types import Op
from gpuscope.timeline.kineto.arguments import plain_arguments
from gpuscope.timeline.kineto.lanes import Placed, place_number
from gpuscope.timeline.kineto.records import Meta
from gpuscope.timeline.kineto.table import Table
from gpuscope.timeline.types import EVENT_KINDS, Ints, Lane, Step

OWN_CATEGORIES = frozenset(EVENT_KINDS)
"""The writer's categories are the names of the kinds."""

_PROCESS = re.compile(r"^rank (\d+) (host|device)$")
_STEP_THREAD = 0
"""Thread of the step windows; lanes follow from 1."""


def step_rows(table: Table, columns: dict[str, Any]) -> Ints:
    """Rows that draw the windows of steps."""
    thread = np.array([place_number(value) for value in table.places] or [-1], np.int64)
    return np.flatnonzero(thread[columns["tid"]] == _STEP_THREAD)


def own_steps(table: Table, columns: dict[str, Any], rows: Ints) -> tuple[Step, ...]:
    """The windows that those rows draw."""
    places, ranks = list(table.places), _processes(table.metadata)
    steps = [
        Step(start, start + duration, ranks.get(places[pid], (0, "device"))[0])
        for start, duration, pid in zip(
            columns["start_ns"][rows].tolist(),
            columns["duration_ns"][rows].tolist(),
            columns["pid"][rows].tolist(),
            strict=True,
        )
    ]
    return tuple(sorted(steps, key=lambda step: (step.start_ns, step.rank)))


def own_ops(table: Table, row_of: Ints, count: int) -> tuple[Ints, tuple[Op, ...]]:
    """Each event's operator, and what the file says of each: name, module and phase."""
    rows = table.own.join(("row", "op", "call"))
    column = np.full(count, -1, np.int64)
    at = row_of[rows["row"]] if len(rows["row"]) else np.zeros(0, np.int64)
    calls = list(table.own_calls)
    known = (at >= 0) & (rows["op"] >= 0) & (rows["op"] < len(row_of) + len(calls) + 1)
    numbers, first = np.unique(rows["op"][known], return_index=True)
    which = rows["call"][known][first]
    column[at[known]] = np.searchsorted(numbers, rows["op"][known])
    ops = []
    for index, call in enumerate(which.tolist()):
        name, module, phase = calls[call]
        ops.append(Op(index=index, name=name, module=module, phase=_phase(phase)))
    return column, tuple(ops)


def _phase(word: str) -> Any:
    known = ("forward", "backward", "optimizer", "input", "other")
    return word if word in known else "other"


def place_own(table: Table, columns: dict[str, Any]) -> Placed:
    """Lanes of the file: each is a thread of a rank's host or device, numbered from 1."""
    ranks = _processes(table.metadata)
    names = {
        (event.pid, event.tid): str(plain_arguments(event.args).get("name") or "")
        for event in table.metadata
        if event.name == "thread_name"
    }
    places = list(table.places)
    keys = set(zip(columns["pid"].tolist(), columns["tid"].tolist(), strict=True))
    order = sorted(
        keys, key=lambda key: (place_number(places[key[1]]), place_number(places[key[0]]))
    )
    lanes: list[Lane] = []
    number: dict[tuple[int, int], int] = {}
    for key in order:
        pid, tid = places[key[0]], places[key[1]]
        rank, side = ranks.get(pid, (0, "device"))
        name = names.get((pid, tid), f"thread {tid}")
        number[key] = len(lanes)
        lanes.append(_lane(name, side, rank))
    width = len(places) + 1
    distinct, inverse = np.unique(columns["pid"] * width + columns["tid"], return_inverse=True)
    of = np.array([number[divmod(key, width)] for key in distinct.tolist()], np.int64)
    lane = of[inverse.reshape(-1)] if len(distinct) else np.zeros(0, np.int64)
    streams = [place_number(entry.name) if entry.kind == "stream" else -1 for entry in lanes]
    return Placed(tuple(lanes), lane, np.array(streams or [-1], np.int64)[lane])


def _lane(name: str, side: str, rank: int) -> Lane:
    if side == "host":
        return Lane(name, "host", rank, -1)
    if name.startswith("copy"):
        return Lane(name, "copy", rank)
    return Lane(name, "link" if name.startswith("link") else "stream", rank)


def _processes(metadata: Sequence[Meta]) -> dict[Any, tuple[int, str]]:
    """Rank and side by process id."""
    found = {}
    for event in metadata:
        if event.name == "process_name":
            match = _PROCESS.match(str(plain_arguments(event.args).get("name") or ""))
            if match:
                found[event.pid] = (int(match[1]), match[2])
    return found
