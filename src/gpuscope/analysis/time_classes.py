"""Exact time classes of one rank: integer interval arithmetic over all of its device events."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.columns import OpColumns
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.host_activity import HostActivity, Hosts
from gpuscope.analysis.idle import idle_causes
from gpuscope.analysis.types import RankTime
from gpuscope.analysis.window import (
    COMMUNICATION,
    KERNEL,
    DeviceWork,
    Window,
    device_ranks,
    device_work,
)
from gpuscope.timeline.types import Timeline

NS = 1e-9
"""Seconds in a nanosecond."""


def rank_time(
    timeline: Timeline, rank: int, ops: OpColumns | None = None, hosts: Hosts | None = None
) -> RankTime:
    """Return the time classes of one rank from its first to its last device event.

    All device events of the timeline count, whatever steps are marked. Unions are exact: the
    seconds are integer nanoseconds times 1e-9. A rank without device work has zeros.
    """
    ops = OpColumns.of(timeline) if ops is None else ops
    whole = device_work(timeline, rank, Window(_LEAST, _MOST, 1))
    if len(whole) == 0:
        return RankTime(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, {})
    span = Window(int(whole.start_ns.min()), int(whole.end_ns.max()), 1)
    work = device_work(timeline, rank, span)
    hosts = Hosts(timeline, ops) if hosts is None else hosts
    return _classes(timeline, work, hosts(rank), ops)


def rank_times(
    timeline: Timeline, ops: OpColumns | None = None, hosts: Hosts | None = None
) -> dict[int, RankTime]:
    """Return the time classes of every rank that has device work."""
    ops = OpColumns.of(timeline) if ops is None else ops
    hosts = Hosts(timeline, ops) if hosts is None else hosts
    return {rank: rank_time(timeline, rank, ops, hosts) for rank in device_ranks(timeline)}


_LEAST, _MOST = np.iinfo(np.int64).min // 4, np.iinfo(np.int64).max // 4


def _classes(timeline: Timeline, work: DeviceWork, host: HostActivity, ops: OpColumns) -> RankTime:
    compute = _union(work, work.kind == KERNEL)
    communication = _union(work, work.kind == COMMUNICATION)
    kernels = _union(work, (work.kind == KERNEL) | (work.kind == COMMUNICATION))
    copies = _union(work, (work.kind != KERNEL) & (work.kind != COMMUNICATION))
    span_ns, busy_ns = work.window.length_ns, work.busy.total_ns
    causes = idle_causes(timeline, work, host, ops)
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
