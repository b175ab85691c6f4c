"""On a CPU the operators are the kernels.

A trace of a CPU run has no device events. So that its time can be told like a GPU's, the time of
each operator that no inner operator covers becomes work of a device "cpu". What lies between
operators, in Python and in autograd, stays the host's.

Gloo works in threads of its own and marks there how long each collective takes ("gloo:all_reduce",
set in PyTorch's ProcessGroupGloo.cpp). These marks are the communication then, waiting for other
ranks included, as it is for a kernel on a GPU; the operator ("c10d::allreduce_") hands it over.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt

from gpuscope.timeline.communication import is_communication
from gpuscope.timeline.nesting import parent_rows
from gpuscope.timeline.types import EVENT_KINDS, Events, Ints, Lane, Recorded, Timeline

_OPERATOR = EVENT_KINDS.index("operator")
_OTHER = EVENT_KINDS.index("other")
_KERNEL = EVENT_KINDS.index("kernel")
_COMMUNICATION = EVENT_KINDS.index("communication")

Flags = npt.NDArray[np.bool_]


def with_host_kernels(timeline: Timeline) -> Timeline:
    """Return the timeline with device work made of its operators; as it is if it has some."""
    events = timeline.events
    if timeline.recorded is not None and len(timeline.recorded):
        return timeline
    by_gloo = _marked_by_gloo(timeline)
    marked = by_gloo[events.name] & (events.kind == _OTHER)
    as_work = replace(events, kind=np.where(marked, _OPERATOR, events.kind))
    owner, start_ns, length_ns = own_pieces(as_work)
    if len(owner) == 0:
        return timeline
    hosts = np.unique(events.lane[owner])
    lanes = (*timeline.lanes, *(_lane(timeline.lanes[at], n) for n, at in enumerate(hosts)))
    added = {f.name: getattr(events, f.name)[owner] for f in fields(Events)}
    added |= {"start_ns": start_ns, "duration_ns": length_ns}
    added["kind"] = np.where(
        _communicates(timeline, by_gloo, bool(marked.any()))[added["name"]], _COMMUNICATION, _KERNEL
    )
    added["lane"] = len(timeline.lanes) + np.searchsorted(hosts, events.lane[owner])
    columns = {name: np.concatenate((getattr(events, name), col)) for name, col in added.items()}
    order = np.lexsort((columns["lane"], columns["start_ns"]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    merged = Events(**{name: column[order] for name, column in columns.items()})
    recorded = _recorded(place[len(events) :], place[owner])
    return replace(timeline, lanes=lanes, events=merged, recorded=recorded)


def own_pieces(events: Events) -> tuple[Ints, Ints, Ints]:
    """Return the pieces of the operators' time that belong to the innermost operator.

    At each start of an operator a piece of its own begins; at each end, one of the operator
    around it.

    Returns:
        Row of the operator, start and length of each piece, in no order; empty pieces left out.
    """
    chosen = (events.kind == _OPERATOR) & (events.duration_ns > 0)
    rows, around = np.flatnonzero(chosen), parent_rows(events, chosen)
    at = np.concatenate((events.start_ns[rows], events.end_ns[rows]))
    owner = np.concatenate((rows, around[rows]))
    lane = np.concatenate((events.lane[rows], events.lane[rows]))
    length = np.concatenate((events.duration_ns[rows], events.duration_ns[rows]))
    ending = np.repeat(np.array([0, 1]), len(rows))
    # At one instant: first the ends, inner before outer, then the starts, outer before inner.
    # Of equal ones the later row is the inner one.
    inner_last = np.where(ending == 1, length, -length)
    row = np.concatenate((rows, -rows))
    order = np.lexsort((row, inner_last, 1 - ending, at, lane))
    at, owner, lane = at[order], owner[order], lane[order]
    piece = np.diff(at, append=at[-1:])
    same = np.append(lane[1:] == lane[:-1], False) if len(lane) else np.zeros(0, bool)
    kept = same & (piece > 0) & (owner >= 0)
    return owner[kept], at[kept], piece[kept]


def _marked_by_gloo(timeline: Timeline) -> Flags:
    """Which names are Gloo's marks."""
    return np.array([name.startswith("gloo:") for name in timeline.names], bool)


def _communicates(timeline: Timeline, by_gloo: Flags, marked: bool) -> Flags:
    """Which names are collectives; where Gloo has marked its own, only those and other libraries'.

    Args:
        timeline: with the names.
        by_gloo: which of them are Gloo's marks.
        marked: there are such marks.
    """
    handing_over = ("c10d::", "_c10d_functional::") if marked else ()
    named = [
        is_communication(name) and not name.startswith(handing_over) for name in timeline.names
    ]
    return np.array(named, bool) | by_gloo


def _lane(host: Lane, number: int) -> Lane:
    return Lane("cpu" if number == 0 else f"cpu {number}", "stream", host.rank, 0)


def _recorded(event: Ints, operator: Ints) -> Recorded:
    order = np.argsort(event, kind="stable")
    event, operator = event[order], operator[order]
    unknown, wide = np.full(len(event), -1, np.int64), np.full((len(event), 3), -1, np.int64)
    return Recorded(
        event=event,
        grid=wide,
        block=wide,
        registers=unknown,
        shared_bytes=unknown,
        occupancy=np.full(len(event), np.nan),
        nbytes=unknown,
        stream=np.zeros(len(event), np.int64),
        graph=unknown,
        launch=operator,
        operator=operator,
        collective=unknown,
        sequence=unknown,
    )
