"""Where the host's time went, for recordings without device work: operators by their own time."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.types import Share
from gpuscope.analysis.window import LAUNCH, OPERATOR, SYNC, Window, rank_rows
from gpuscope.timeline.nesting import parent_rows
from gpuscope.timeline.types import EVENT_KINDS, Timeline

_KINDS = (OPERATOR, LAUNCH, SYNC, EVENT_KINDS.index("python"), EVENT_KINDS.index("other"))

MOST = 100


def host_operators(timeline: Timeline, rank: int, window: Window | None) -> tuple[Share, ...]:
    """Return what the host threads of a rank spent their time in, largest first.

    An event's own time is its length without the events inside it on the same thread, so the rows
    add up to what the threads were in; several threads may be busy at once.

    Args:
        timeline: predicted or measured.
        rank: whose host.
        window: only events that begin in it, per step; None: all, as one step.
    """
    events = timeline.events
    hosts = np.fromiter((lane.kind == "host" for lane in timeline.lanes), bool, len(timeline.lanes))
    rows = rank_rows(timeline, rank) & np.isin(events.kind, _KINDS)
    if len(events):
        rows &= hosts[events.lane]
    if window is not None:
        rows &= (events.start_ns >= window.start_ns) & (events.start_ns < window.end_ns)
    if not rows.any():
        return ()
    parent = parent_rows(events, rows)
    own = np.where(rows, events.duration_ns, 0)
    inside = parent >= 0
    # A child that ends after its parent takes no more from it than the parent has.
    np.subtract.at(own, parent[inside], events.duration_ns[inside])
    own = np.maximum(own, 0)
    names = len(timeline.names)
    time = np.bincount(events.name[rows], weights=own[rows], minlength=names)
    count = np.bincount(events.name[rows], minlength=names)
    per_step = 1e-9 / (window.steps if window is not None else 1)
    steps = window.steps if window is not None else 1
    largest = np.argsort(-time, kind="stable")[:MOST]
    return tuple(
        Share(timeline.names[i], float(time[i]) * per_step, max(1, round(int(count[i]) / steps)))
        for i in largest.tolist()
        if time[i] > 0
    )
