"""What belongs to what: launches to device work, operators to launches, marks to steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuscope.timeline.kineto.vocabulary import KIND, step_rank
from gpuscope.timeline.nesting import climb
from gpuscope.timeline.types import DEVICE_KINDS, Events, Ints, Lane, Step

Flags = npt.NDArray[np.bool_]


def launches(events: Events, device: Ints, on_host: Flags) -> tuple[Events, Ints]:
    """The runtime call of each device event, by correlation; -1 where it is not in the file.

    Of several calls with one correlation the one that launches counts, else the first. A call of
    an unknown name that brought device work is a launch.

    Args:
        events: all of them.
        device: rows of device events.
        on_host: by lane.
    """
    called = np.flatnonzero(
        (events.correlation >= 0) & (events.kind >= DEVICE_KINDS) & on_host[events.lane]
    )
    if not len(called) or not len(device):
        return events, np.full(len(device), -1, np.int64)
    other = events.kind[called] != KIND["launch"]
    order = np.lexsort((called, other, events.correlation[called]))
    numbers, first = np.unique(events.correlation[called][order], return_index=True)
    rows = called[order][first]
    wanted = events.correlation[device]
    at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    launch = np.where((numbers[at] == wanted) & (wanted >= 0), rows[at], -1)
    kind = events.kind.copy()
    brought = launch[launch >= 0]
    kind[brought[kind[brought] == KIND["other"]]] = KIND["launch"]
    return replace(events, kind=kind), launch


def operators_of(
    events: Events, parent: Ints, launch: Ints, device: Ints, own: Ints, carried: Ints
) -> Ints:
    """The innermost operator around each device event's launch; -1 if none.

    Where the launch is not in the file, the operator whose external id the event carries. Some
    versions fill that in with the correlation, which says nothing.

    Args:
        events, parent: all of them.
        launch: from `launches`.
        device: rows of device events.
        own: external id of each event that is an operator.
        carried: external id of each device event.
    """
    operator = events.kind == KIND["operator"]
    found = climb(parent, operator, launch)
    missing = (launch < 0) & (carried > 0) & (carried != events.correlation[device])
    rows = np.flatnonzero((own > 0) & operator)
    if not missing.any() or not len(rows):
        return found
    numbers, from_end = np.unique(own[rows][::-1], return_index=True)
    rows = rows[::-1][from_end]
    at = np.minimum(np.searchsorted(numbers, carried), len(numbers) - 1)
    return np.where(missing & (numbers[at] == carried), rows[at], found)


def steps(events: Events, names: Sequence[str], lanes: Sequence[Lane]) -> tuple[Step, ...]:
    """Windows of the steps that host marks tell, in time order.

    gpuscope's own marks count before the profiler's, those before ranges that are merely called
    like steps; the last only where one thread has several that do not overlap.
    """
    surely = np.fromiter((step_rank(name) for name in names), np.int64, len(names))
    on_host = np.array([lane.kind == "host" for lane in lanes] or [True], bool)
    mark = events.kind >= KIND["operator"]
    mark &= on_host[events.lane] & (events.kind != KIND["python"])
    ranks = np.where(mark, surely[events.name], 0)
    best = int(ranks.max(initial=0))
    rows = np.flatnonzero(ranks == best) if best else np.zeros(0, np.int64)
    if not len(rows):
        return ()
    threads, counts = np.unique(events.lane[rows], return_counts=True)
    rows = rows[events.lane[rows] == threads[np.argmax(counts)]]
    start, end = events.start_ns[rows], events.end_ns[rows]
    if best == 1:
        kept = _outermost(start, end)
        start, end = start[kept], end[kept]
        if len(start) < 2:
            return ()
    rank = lanes[int(events.lane[rows[0]])].rank
    return tuple(
        Step(begin, finish, rank)
        for begin, finish in zip(start.tolist(), end.tolist(), strict=True)
        if finish > begin
    )


def _outermost(start: Ints, end: Ints) -> Any:
    """Which of the intervals, sorted by start, lie in none before them."""
    reach = np.maximum.accumulate(end)
    before = np.concatenate(([np.iinfo(np.int64).min], reach[:-1]))
    return start >= before
