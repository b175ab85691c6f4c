"""On a CPU the operators that do the work are the kernels.

A trace of a CPU run has no device events. So that its time can be told like a GPU's, the innermost
operators become work of a device "cpu". What lies between them, in outer operators and in Python,
is the host's dispatching.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from gpuscope.timeline.types import EVENT_KINDS, Events, Ints, Lane, Recorded, Timeline

_OPERATOR = EVENT_KINDS.index("operator")
_KERNEL = EVENT_KINDS.index("kernel")


def with_host_kernels(timeline: Timeline) -> Timeline:
    """Return the timeline with one kernel for each innermost operator; as it is if it has some."""
    events = timeline.events
    if timeline.recorded is not None and len(timeline.recorded):
        return timeline
    rows = np.flatnonzero((events.kind == _OPERATOR) & (events.duration_ns > 0))
    leaves = rows[_innermost(events, rows)]
    if len(leaves) == 0:
        return timeline
    lane = Lane("cpu", "stream", timeline.lanes[int(events.lane[leaves[0]])].rank, 0)
    lanes = (*timeline.lanes, lane)
    added = {f.name: getattr(events, f.name)[leaves] for f in fields(Events)}
    added["kind"] = np.full(len(leaves), _KERNEL, np.int64)
    added["lane"] = np.full(len(leaves), len(lanes) - 1, np.int64)
    columns = {name: np.concatenate((getattr(events, name), col)) for name, col in added.items()}
    order = np.lexsort((columns["lane"], columns["start_ns"]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    merged = Events(**{name: column[order] for name, column in columns.items()})
    old = len(events)
    return replace(
        timeline, lanes=lanes, events=merged,
        recorded=_recorded(place[old:], place[leaves]),
    )  # fmt: skip


def _innermost(events: Events, rows: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of these events have no other of them inside, on their own lane."""
    lane, start = events.lane[rows], events.start_ns[rows]
    end = events.end_ns[rows]
    order = np.lexsort((-end, start, lane))
    lane, start, end = lane[order], start[order], end[order]
    inner = np.ones(len(rows), bool)
    # Sorted like this, an event's first inner event, if it has one, is the very next row.
    nested = (lane[1:] == lane[:-1]) & (start[1:] >= start[:-1]) & (end[1:] <= end[:-1])
    inner[:-1] &= ~nested
    found = np.empty(len(rows), bool)
    found[order] = inner
    return found


def _recorded(event: Ints, operator: Ints) -> Recorded:
    order = np.argsort(event, kind="stable")
    event, operator = event[order], operator[order]
    unknown = np.full(len(event), -1, np.int64)
    return Recorded(
        event=event, grid=np.full((len(event), 3), -1, np.int64),
        block=np.full((len(event), 3), -1, np.int64), registers=unknown, shared_bytes=unknown,
        occupancy=np.full(len(event), np.nan), nbytes=unknown,
        stream=np.zeros(len(event), np.int64), graph=unknown, launch=operator, operator=operator,
        collective=unknown, sequence=unknown,
    )  # fmt: skip
