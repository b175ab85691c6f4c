"""Exact time classes of one rank: integer interval arithmetic over all of its device events."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpuscope.analysis.columns import OpColumns
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.host_activity import Hosts
from gpuscope.analysis.idle import IdlePieces, causes_of, idle_pieces
from gpuscope.analysis.types import RankTime
from gpuscope.analysis.window import (
    COMMUNICATION,
    KERNEL,
    DeviceWork,
    Window,
    device_ranks,
    device_work,
    rank_rows,
)
from gpuscope.timeline.types import DEVICE_KINDS, Timeline

Known = tuple[DeviceWork, IdlePieces]
"""Device work of a window and its idle time."""

NS = 1e-9
"""Seconds in a nanosecond."""


def rank_time(
    timeline: Timeline,
    rank: int,
    ops: OpColumns | None = None,
    hosts: Hosts | None = None,
    known: Known | None = None,
) -> RankTime:
    """Return the time classes of one rank from its first to its last device event.

    All device events of the timeline count, whatever steps are marked. Unions are exact: the
    seconds are integer nanoseconds times 1e-9. A rank without device work has zeros.

    Args:
        timeline, rank: whose.
        ops, hosts: as `analyze` has them; found here where left out.
        known: device work of a window of this rank and its idle time, used if it is all of it.
    """
    events = timeline.events
    rows = np.flatnonzero(rank_rows(timeline, rank) & (events.kind < DEVICE_KINDS))
    if len(rows) == 0:
        return RankTime(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, {})
    first, last = int(events.start_ns[rows].min()), int(events.end_ns[rows].max())
    if known is not None and (first, last) == known[0].window.bounds:
        return _classes(*known)
    ops = OpColumns.of(timeline) if ops is None else ops
    work = device_work(timeline, rank, Window(first, last, 1))
    hosts = Hosts(timeline, ops) if hosts is None else hosts
    return _classes(work, idle_pieces(timeline, work, hosts(rank), ops))


def rank_times(
    timeline: Timeline,
    ops: OpColumns | None = None,
    hosts: Hosts | None = None,
    known: Mapping[int, Known] | None = None,
) -> dict[int, RankTime]:
    """Return the time classes of every rank that has device work; `known` by rank."""
    ops = OpColumns.of(timeline) if ops is None else ops
    hosts = Hosts(timeline, ops) if hosts is None else hosts
    known = {} if known is None else known
    return {
        rank: rank_time(timeline, rank, ops, hosts, known.get(rank))
        for rank in device_ranks(timeline)
    }


def _classes(work: DeviceWork, pieces: IdlePieces) -> RankTime:
    compute = _union(work, work.kind == KERNEL)
    communication = _union(work, work.kind == COMMUNICATION)
    kernels = _union(work, (work.kind == KERNEL) | (work.kind == COMMUNICATION))
    copies = _union(work, (work.kind != KERNEL) & (work.kind != COMMUNICATION))
    span_ns, busy_ns = work.window.length_ns, work.busy.total_ns
    causes = causes_of(pieces)
    return RankTime(
        span_s=span_ns * NS,
        busy_s=busy_ns * NS,
        idle_s=(span_ns - busy_ns) * NS,
        compute_s=compute.total_ns * NS,
        communication_s=communication.total_ns * NS,
        exposed_communication_s=(kernels.total_ns - compute.total_ns) * NS,
        copy_s=copies.total_ns * NS,
        idle_by_cause={cause: ns * NS for cause, ns in causes.items() if ns},
    )


def _union(work: DeviceWork, rows: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Cover:
    return Cover.of(work.start_ns[rows], work.end_ns[rows])
