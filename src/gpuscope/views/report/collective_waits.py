"""How much of each collective's kernel is waiting, and for whom: what the timeline paints on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuscope.analysis.collective_match import match_collectives
from gpuscope.analysis.ranks import call_waits
from gpuscope.analysis.window import device_ranks
from gpuscope.timeline.types import Timeline

MOST_WAITS = 50_000
"""Most calls that a page holds for one run; of more, those that wait longest."""


@dataclass(frozen=True, slots=True)
class CollectiveWaits:
    """Calls of collectives that wait for another rank, in time order; equal columns.

    A call waits from its begin; what is left of its duration is transfer.

    Attributes:
        start_ns: begin of the call's kernel, on the timeline's clock.
        wait_ns: how long it waits.
        lane: index into `Timeline.lanes`.
        last: the rank that it waits for.
    """

    start_ns: tuple[int, ...]
    wait_ns: tuple[int, ...]
    lane: tuple[int, ...]
    last: tuple[int, ...]


def collective_waits(timeline: Timeline, most: int = MOST_WAITS) -> CollectiveWaits | None:
    """Return the waits inside collectives; None where no collective is on two ranks.

    Their sum by rank is `RankShare.waiting_s`, unless there were more than `most`.

    Args:
        timeline: of several ranks.
        most: most calls to return.
    """
    if len(device_ranks(timeline)) < 2:
        return None
    match = match_collectives(timeline)
    if match.count == 0:
        return None
    calls = match.calls
    waiting, last = call_waits(match)
    rows = np.flatnonzero(waiting > 0)
    rows = np.sort(rows[np.argsort(-waiting[rows], kind="stable")[:most]])
    rows = rows[np.argsort(calls.start_ns[rows], kind="stable")]
    latest = calls.rank[last[match.id[rows]]]
    return CollectiveWaits(
        start_ns=tuple(calls.start_ns[rows].tolist()),
        wait_ns=tuple(waiting[rows].tolist()),
        lane=tuple(timeline.events.lane[calls.event[rows]].tolist()),
        last=tuple(calls.ranks[code] for code in latest.tolist()),
    )
