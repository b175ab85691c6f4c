"""Kernels of CUDA graphs get the operators under which the graph was captured.

A replay is one call: its kernels have no operator around them. Where the recording, or another of
the same rank, also holds the capture (`cudaStreamBeginCapture` to `cudaStreamEndCapture`), its
launch calls stand under their operators and bring no work of their own: the graph's kernels are
these launches, in their order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuscope.document.text import Text
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS, Events, Ints, Timeline

_BEGIN = re.compile(r"^(?:cuda|cu|hip)StreamBeginCapture")
_END = re.compile(r"^(?:cuda|cu|hip)StreamEndCapture")
_GRAPH = re.compile(r"GraphLaunch")
_LAUNCH = EVENT_KINDS.index("launch")
_OPERATOR = EVENT_KINDS.index("operator")


@dataclass(frozen=True, slots=True)
class _Replay:
    """Device events of one graph launch, in their order, and the graph's number (-1: unknown)."""

    rows: Ints
    graph: int


def has_captures(timeline: Timeline) -> bool:
    """Whether a graph was captured in a recording."""
    return any(map(_BEGIN.match, timeline.names))


def has_replays(timeline: Timeline) -> bool:
    """Whether a graph was launched in a recording."""
    return any(map(_GRAPH.search, timeline.names))


def with_captures(
    timeline: Timeline, others: Mapping[int, Sequence[Timeline]] | None = None
) -> Timeline:
    """Return a recording whose graph kernels have the operators of their capture.

    A graph belongs to the capture of as many launches; where several have as many, to that in its
    place, counted among the graphs by their numbers. Where neither decides, on graphs of several
    streams, and where the capture was not recorded, kernels stay without an operator.

    Args:
        timeline: of any number of ranks.
        others: by rank, recordings that hold captures of its graphs; a capture in its own
            recording counts first.
    """
    given = {rank: list(found) for rank, found in (others or {}).items() if found}
    if timeline.recorded is None or not (given or has_captures(timeline)):
        return timeline
    op, ops = timeline.events.op.copy(), list(timeline.ops)
    told = 0
    for rank in sorted({lane.rank for lane in timeline.lanes}):
        own = np.array([lane.rank == rank for lane in timeline.lanes], bool)[timeline.events.lane]
        captures = _captures(timeline, own)
        for other in () if captures else given.get(rank, ()):
            every = np.ones(len(other.events), bool)
            known = [np.where(each < 0, each, each + len(ops)) for each in _captures(other, every)]
            captures += known
            ops += other.ops
        replays = _replays(timeline, own)
        for replay, capture in _paired(replays, captures):
            op[replay.rows] = np.where(op[replay.rows] < 0, capture, op[replay.rows])
            told += 1
    if not told and given:
        left = Text("No graph launch has as many kernels as a recorded capture has launches.")
        return replace(timeline, notes=(*timeline.notes, left))
    if not told:
        return timeline
    note = Text(
        "Kernels of {count} graph launches have the operators of the capture that was recorded.",
        count=told,
    )
    events = replace(timeline.events, op=op)
    return replace(timeline, events=events, ops=tuple(ops), notes=(*timeline.notes, note))


def _named(timeline: Timeline, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    known = np.array([bool(pattern.search(name)) for name in timeline.names], bool)
    return known[timeline.events.name]


def _captures(timeline: Timeline, own: npt.NDArray[np.bool_]) -> list[Ints]:
    """Of each capture the operators of its launches, as indices into `ops`, in order."""
    events = timeline.events
    begins = np.flatnonzero(own & _named(timeline, _BEGIN))
    ends = np.flatnonzero(own & _named(timeline, _END))
    work = events.correlation[own & (events.kind < DEVICE_KINDS)]
    launches = np.flatnonzero(
        own & (events.kind == _LAUNCH) & ~np.isin(events.correlation, work[work >= 0])
    )
    found = []
    for begin in begins.tolist():
        after = ends[events.start_ns[ends] >= events.end_ns[begin]]
        if not len(after):
            continue
        low, high = events.end_ns[begin], events.start_ns[after[0]]
        inside = launches[(events.start_ns[launches] >= low) & (events.end_ns[launches] <= high)]
        inside = _outermost(events, inside)
        found.append(_operators(events, own, inside))
    return found


def _outermost(events: Events, rows: Ints) -> Ints:
    """Calls that lie in no other of the same thread: a runtime's, not its driver's."""
    kept: list[int] = []
    ends: dict[int, int] = {}
    for row in rows[np.lexsort((-events.duration_ns[rows], events.start_ns[rows]))].tolist():
        lane = int(events.lane[row])
        if events.start_ns[row] >= ends.get(lane, -1):
            kept.append(row)
            ends[lane] = int(events.end_ns[row])
    return np.array(kept, np.int64)


def _operators(events: Events, own: npt.NDArray[np.bool_], launches: Ints) -> Ints:
    """The index into `ops` of the innermost operator around each launch; -1 where there is none."""
    around = np.full(len(launches), -1, np.int64)
    operators = np.flatnonzero(own & (events.kind == _OPERATOR) & (events.op >= 0))
    for at, row in enumerate(launches.tolist()):
        over = operators[
            (events.lane[operators] == events.lane[row])
            & (events.start_ns[operators] <= events.start_ns[row])
            & (events.end_ns[operators] >= events.end_ns[row])
        ]
        if len(over):
            around[at] = events.op[over[np.argmin(events.duration_ns[over])]]
    return around


def _replays(timeline: Timeline, own: npt.NDArray[np.bool_]) -> list[_Replay]:
    recorded, events = timeline.recorded, timeline.events
    assert recorded is not None
    graphs = _named(timeline, _GRAPH)
    mine = own[recorded.event] & (recorded.launch >= 0)
    mine &= graphs[np.maximum(recorded.launch, 0)]
    by_call: dict[int, list[int]] = defaultdict(list)
    for place in np.flatnonzero(mine).tolist():
        by_call[int(recorded.launch[place])].append(place)
    found = []
    for places in by_call.values():
        rows = recorded.event[places]
        if len(np.unique(events.lane[rows])) == 1:
            rows = rows[np.argsort(events.start_ns[rows], kind="stable")]
            found.append(_Replay(rows, int(recorded.graph[places[0]])))
    return found


def _paired(replays: Sequence[_Replay], captures: Sequence[Ints]) -> list[tuple[_Replay, Ints]]:
    numbers = sorted({replay.graph for replay in replays})
    pairs = []
    for replay in replays:
        alike = [capture for capture in captures if len(capture) == len(replay.rows)]
        place = numbers.index(replay.graph)
        if len(alike) > 1 and len(numbers) == len(captures):
            alike = [captures[place]] if len(captures[place]) == len(replay.rows) else []
        if len(alike) == 1:
            pairs.append((replay, alike[0]))
    return pairs
