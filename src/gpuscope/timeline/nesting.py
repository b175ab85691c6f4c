"""Which host event encloses which: the call tree of each thread, by columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuscope.timeline.types import DEVICE_KINDS, Events, Ints, Timeline

Flags = npt.NDArray[np.bool_]


def parents(timeline: Timeline) -> Ints:
    """Return the row of each host event's innermost enclosing event on the same lane.

    Args:
        timeline: of any origin.

    Returns:
        One row number an event of `timeline.events`; -1 for what nothing encloses, for device
        work and for everything that lies on a device's lanes.
    """
    on_host = np.array([lane.kind == "host" for lane in timeline.lanes], bool)
    events = timeline.events
    if not len(events):
        return np.zeros(0, np.int64)
    return parent_rows(events, on_host[events.lane] & (events.kind >= DEVICE_KINDS))


def parent_rows(events: Events, rows: Flags) -> Ints:
    """`parents` among the events that `rows` selects; -1 for the others.

    An event encloses a later one that starts before it ends and lies in it for at least half of
    its length: clocks of microseconds make children end a little after their parents.
    """
    parent = np.full(len(events), -1, np.int64)
    chosen = np.flatnonzero(rows)
    if not len(chosen):
        return parent
    order = _by_lane(events, chosen)
    found = _enclosing(events.lane[order], events.start_ns[order], events.end_ns[order])
    parent[order] = np.where(found >= 0, order[np.maximum(found, 0)], -1)
    return parent


def nearest(parent: Ints, marked: Flags, *, own: bool = True) -> Ints:
    """Return the nearest marked event on each event's way up; -1 where there is none.

    Args:
        parent: from `parents`.
        marked: which events to stop at.
        own: whether a marked event is its own nearest; else the search starts above it.
    """
    at = np.arange(len(parent)) if own else parent.copy()
    while True:
        going = np.flatnonzero((at >= 0) & ~marked[np.maximum(at, 0)])
        if not len(going):
            return at
        # Events above stop by themselves, so what they have found so far is a shortcut.
        step = at[going]
        beyond = at[step]
        at[going] = np.where(beyond == step, parent[step], beyond)


def climb(parent: Ints, marked: Flags, rows: Ints) -> Ints:
    """`nearest` for some rows only; -1 among them stays -1.

    Args:
        parent: from `parents`.
        marked: which events to stop at.
        rows: where to start; a marked row is its own nearest.
    """
    at = rows.copy()
    going = np.arange(len(rows))
    while len(going):
        here = at[going]
        going = going[here >= 0]
        going = going[~marked[at[going]]]
        at[going] = parent[at[going]]
    return at


def _by_lane(events: Events, chosen: Ints) -> Ints:
    """Rows by lane, then start, the longer first."""
    keys = (-events.duration_ns[chosen], events.start_ns[chosen], events.lane[chosen])
    ordered: Ints = chosen[np.lexsort(keys)]
    return ordered


def _enclosing(lane: Ints, start: Ints, end: Ints) -> Ints:
    """For events sorted by lane and start: the position of the one around each.

    Every event first points at the one before it; those that point at an event that does not
    enclose them take over its pointer, all at once, until nothing changes. Pointers double their
    reach each time, so this takes some twenty rounds for a million events.
    """
    at = np.arange(len(lane)) - 1
    going = np.arange(len(lane))
    while len(going):
        to = at[going]
        there = np.maximum(to, 0)
        same = (to >= 0) & (lane[there] == lane[going])
        inside = np.minimum(end[there], end[going]) - start[going]
        around = (end[there] > start[going]) & (2 * inside >= end[going] - start[going])
        at[going[~same]] = -1
        going = going[same & ~around]
        at[going] = at[at[going]]
    return at
