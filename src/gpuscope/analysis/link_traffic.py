"""Bytes that each collective sends over the links of its device.

A rank sends message x bus factor (see `gpuscope.analysis.collective_names`): what a ring, or any
algorithm that wastes nothing, must put on the wire. Switches that add on the way send less.
"""

from __future__ import annotations

import re

import numpy as np

from gpuscope.analysis.collective_calls import communication_calls
from gpuscope.analysis.collective_names import bus_factor, message_bytes, sort_of
from gpuscope.analysis.columns import Floats
from gpuscope.cost.types import Kernel
from gpuscope.program.types import Op
from gpuscope.timeline.types import Ints, Timeline

_RANKS = re.compile(r"^(\d+) ranks")
"""How a predicted collective's note begins (`gpuscope.cost.collective.model`)."""


def link_bytes(timeline: Timeline, events: Ints) -> Floats:
    """Return the bytes that each of these events sends; NaN where it is not known.

    Args:
        timeline: predicted or measured.
        events: rows of communication events, ascending.
    """
    if timeline.recorded is None:
        return np.array([_predicted(timeline, row) for row in events.tolist()], np.float64)
    return _measured(timeline, events)


def _predicted(timeline: Timeline, row: int) -> float:
    at, op_at = int(timeline.events.kernel[row]), int(timeline.events.op[row])
    kernel = timeline.kernels[at] if at >= 0 else None
    if not isinstance(kernel, Kernel) or kernel.kind != "collective":
        return float("nan")
    op = timeline.ops[op_at] if 0 <= op_at < len(timeline.ops) else None
    recorded = op.args.get("group_size") if isinstance(op, Op) else None
    note = _RANKS.match(kernel.note)
    ranks = recorded if isinstance(recorded, int) else int(note[1]) if note else None
    factor = bus_factor(sort_of(kernel.name), ranks)
    return float("nan") if factor is None else kernel.read_bytes * factor


def _measured(timeline: Timeline, events: Ints) -> Floats:
    calls = communication_calls(timeline)
    order = np.argsort(calls.event, kind="stable")
    found = np.full(len(events), np.nan)
    if not len(calls):
        return found
    at = order[np.minimum(np.searchsorted(calls.event[order], events), len(order) - 1)]
    known: dict[tuple[int, int, int], float] = {}
    for i, row in enumerate(at.tolist()):
        if calls.event[row] != events[i] or calls.collective[row] < 0:
            continue
        key = int(calls.collective[row]), int(calls.sort[row]), int(calls.group[row])
        if key not in known:
            known[key] = _sent(timeline, calls.sorts[key[1]], key[0], calls.groups[key[2]][2])
        found[i] = known[key]
    return found


def _sent(timeline: Timeline, sort: str, collective: int, ranks: int | None) -> float:
    size = message_bytes(sort, timeline.collectives[collective])
    factor = bus_factor(sort, ranks)
    return float("nan") if size is None or factor is None else size * factor
