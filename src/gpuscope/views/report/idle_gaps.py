"""Every stretch in which a device did nothing, with its cause: what the timeline draws as waits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuscope.analysis.columns import OpColumns
from gpuscope.analysis.host_activity import Hosts
from gpuscope.analysis.idle import IDLE_CAUSES, IdlePieces, idle_pieces
from gpuscope.analysis.idle_spots import idle_reasons
from gpuscope.analysis.window import Window, device_ranks, device_work, rank_rows
from gpuscope.timeline.types import DEVICE_KINDS, Ints, Timeline

MOST_GAPS = 20_000
"""Most idle stretches that a page holds for one run; of more, the longest of each rank are kept."""


@dataclass(frozen=True, slots=True)
class IdleGaps:
    """Idle stretches of one rank's device, from its first to its last device event, in time order.

    Attributes:
        rank: whose device.
        start_ns, duration_ns: the stretches, on the timeline's clock; none overlap.
        cause: index into `causes`.
        what: index into `names`: what was at fault ("" if nothing is recorded).
        causes, names: tables.
        left_out: stretches that were too many, the shortest ones.
        left_out_ns: how long those are together.
    """

    rank: int
    start_ns: tuple[int, ...]
    duration_ns: tuple[int, ...]
    cause: tuple[int, ...]
    what: tuple[int, ...]
    causes: tuple[str, ...]
    names: tuple[str, ...]
    left_out: int
    left_out_ns: int


def idle_gaps(timeline: Timeline, most: int = MOST_GAPS) -> tuple[IdleGaps, ...]:
    """Return the idle stretches of each rank that has device work.

    Their durations, with `left_out_ns`, add up to `RankTime.idle_s` of the rank.

    Args:
        timeline: predicted or measured.
        most: most stretches in all; every rank may have an equal part of them.
    """
    ranks = device_ranks(timeline)
    if not ranks:
        return ()
    ops = OpColumns.of(timeline)
    hosts = Hosts(timeline, ops)
    return tuple(_of_rank(timeline, rank, ops, hosts, most // len(ranks)) for rank in ranks)


def _of_rank(timeline: Timeline, rank: int, ops: OpColumns, hosts: Hosts, most: int) -> IdleGaps:
    events = timeline.events
    rows = np.flatnonzero(rank_rows(timeline, rank) & (events.kind < DEVICE_KINDS))
    first, last = int(events.start_ns[rows].min()), int(events.end_ns[rows].max())
    work = device_work(timeline, rank, Window(first, last, 1))
    host = hosts(rank)
    pieces = idle_pieces(timeline, work, host, ops)
    names, what = idle_reasons(timeline, host, ops, pieces)
    begin, length, cause, fault = _joined(pieces, what)
    kept = np.sort(np.argsort(-length, kind="stable")[:most])
    used, number = np.unique(fault[kept], return_inverse=True)
    return IdleGaps(
        rank=rank,
        start_ns=tuple(begin[kept].tolist()),
        duration_ns=tuple(length[kept].tolist()),
        cause=tuple(cause[kept].tolist()),
        what=tuple(number.tolist()),
        causes=IDLE_CAUSES,
        names=tuple(names[code] for code in used.tolist()),
        left_out=len(length) - len(kept),
        left_out_ns=int(length.sum() - length[kept].sum()),
    )


def _joined(pieces: IdlePieces, what: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Join pieces of a gap that follow each other with the same cause and fault."""
    if len(pieces) == 0:
        none = np.zeros(0, np.int64)
        return none, none, none, none
    changes = [np.diff(column) != 0 for column in (pieces.gap, pieces.cause, what)]
    first = np.concatenate(([0], np.flatnonzero(np.any(changes, axis=0)) + 1))
    length = np.add.reduceat(pieces.length_ns, first)
    return pieces.start_ns[first], length, pieces.cause[first], what[first]
