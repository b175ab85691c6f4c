"""Collects the columns of an export's tables and joins them into one `Timeline`."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuscope.document.text import Text
from gpuscope.timeline.types import (
    DEVICE_KINDS,
    EVENT_KINDS,
    Events,
    Ints,
    Lane,
    Recorded,
    Source,
    Step,
    Timeline,
)

TID_BITS = 24
"""Of a thread; above it stand those of its process."""

_MASK = (1 << TID_BITS) - 1

_RECORDED = ("registers", "shared_bytes", "nbytes", "graph")


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns that every sort of event has.

    Attributes:
        start_ns, end_ns: on the recording's clock.
        name: as the builder numbers names.
        kind: index into `EVENT_KINDS`.
        correlation: -1 where there is none.
        process: globalPid of device events; -1 for host events, whose thread says it.
    """

    start_ns: Ints
    end_ns: Ints
    name: Ints
    kind: Ints
    correlation: Ints
    process: Ints


@dataclass(frozen=True, slots=True)
class _Block:
    """Events of one table: rows, where they ran, and what is recorded of device work."""

    rows: Rows
    process: Ints
    place: Ints  # host: thread id; device: device id
    stream: Ints  # -1 on the host
    recorded: Mapping[str, Ints] = field(default_factory=dict)


class Builder:
    """Takes tables as columns, gives a timeline. Times are on the recording's own clock."""

    KERNEL, COMMUNICATION, MEMCPY, MEMSET = range(4)
    OPERATOR = EVENT_KINDS.index("operator")
    LAUNCH = EVENT_KINDS.index("launch")
    SYNC = EVENT_KINDS.index("sync")
    STEP = EVENT_KINDS.index("step")
    OTHER = EVENT_KINDS.index("other")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._blocks: list[_Block] = []
        self._steps: list[tuple[Ints, Ints, Ints]] = []
        self.thread_names: dict[int, str] = {}
        """Name by globalTid."""
        self._ranks: list[int] = []

    @property
    def names(self) -> list[str]:
        """All names so far, in the order of their numbers."""
        return list(self._numbers)

    @property
    def count(self) -> int:
        """Events so far."""
        return sum(len(block.rows.start_ns) for block in self._blocks)

    @property
    def origin_ns(self) -> int:
        """The earliest event: zero of the timeline."""
        return min(int(b.rows.start_ns.min()) for b in self._blocks if len(b.rows.start_ns))

    def name(self, text: str) -> int:
        """The number of a name."""
        return self._numbers.setdefault(text, len(self._numbers))

    def device(self, rows: Rows, device: Ints, stream: Ints, **recorded: Ints) -> None:
        """Add device work; `recorded` holds columns of `Recorded` (others are unknown)."""
        process = rows.process >> TID_BITS & _MASK
        self._blocks.append(_Block(rows, process, device, stream, recorded))

    def on_stream(self, rows: Rows, device: Ints, stream: Ints) -> None:
        """Add events that lie on a stream without being work."""
        self.device(rows, device, stream)

    def host(self, rows: Rows, thread: Ints) -> None:
        """Add events of host threads, given by globalTid."""
        nowhere = np.full(len(thread), -1, np.int64)
        self._blocks.append(_Block(rows, thread >> TID_BITS & _MASK, thread, nowhere))

    def steps(self, chosen: Ints, columns: Mapping[str, Ints]) -> None:
        """Mark the chosen ranges as steps."""
        process = columns["globalTid"][chosen] >> TID_BITS & _MASK
        self._steps.append((columns["start"][chosen], columns["end"][chosen], process))

    def counts(self) -> list[dict[str, int]]:
        """Events by kind, of each rank."""
        tallies: list[Tally[str]] = [Tally() for _ in self.ranks]
        for block in self._blocks:
            pairs = self._rank(block.process) * len(EVENT_KINDS) + block.rows.kind
            for pair, n in zip(*np.unique(pairs, return_counts=True), strict=True):
                rank, kind = divmod(int(pair), len(EVENT_KINDS))
                tallies[rank][EVENT_KINDS[kind]] += int(n)
        return [dict(tally) for tally in tallies]

    def timeline(self, sources: Sequence[Source], notes: tuple[str, ...]) -> Timeline:
        """Join everything that was added."""
        zero = self.origin_ns
        joined = {
            name: np.concatenate([getattr(block.rows, name) for block in self._blocks])
            for name in ("start_ns", "end_ns", "name", "kind", "correlation")
        }
        process = np.concatenate([block.process for block in self._blocks])
        place = np.concatenate([block.place for block in self._blocks])
        stream = np.concatenate([block.stream for block in self._blocks])
        rank = self._rank(process)
        lanes, lane = self._lanes(rank, place, stream)
        order = np.lexsort((lane, joined["start_ns"]))
        nothing = np.full(len(order), -1, np.int64)
        events = Events(
            start_ns=joined["start_ns"][order] - zero,
            duration_ns=(joined["end_ns"] - joined["start_ns"])[order],
            name=joined["name"][order],
            kind=joined["kind"][order],
            lane=lane[order],
            op=nothing,
            kernel=nothing,
            correlation=self._correlation(joined["correlation"], rank)[order],
        )
        return Timeline(
            names=tuple(self._numbers),
            lanes=lanes,
            events=events,
            steps=self._step_windows(zero),
            origin="measured",
            notes=notes,
            recorded=self._recorded(events, order, stream),
            sources=tuple(sources),
        )

    # -- ranks and lanes --------------------------------------------------------------------------

    @property
    def ranks(self) -> list[int]:
        """Process id of each rank: those with device work; without any, all that have events.

        To be asked only once everything is added.
        """
        if self._ranks:
            return self._ranks
        on_device = [b.process[b.rows.kind < DEVICE_KINDS] for b in self._blocks]
        found = np.unique(np.concatenate(on_device))
        if not len(found):
            found = np.unique(np.concatenate([b.process for b in self._blocks]))
        self._ranks = [int(process) for process in found]
        return self._ranks

    def _rank(self, process: Ints) -> Ints:
        """The rank of each process; helpers that use no device belong to the first rank."""
        at = np.searchsorted(self.ranks, process)
        at = np.minimum(at, len(self.ranks) - 1)
        return np.where(np.array(self.ranks)[at] == process, at, 0)

    def _lanes(self, rank: Ints, place: Ints, stream: Ints) -> tuple[tuple[Lane, ...], Ints]:
        """One lane a host thread and a stream, host first."""
        columns = (rank, (stream >= 0).astype(np.int64), place, stream)
        first, lane = _numbered(columns)
        lanes = []
        for of_rank, on_device, where, number in zip(
            *(column[first].tolist() for column in columns), strict=True
        ):
            if on_device:
                label = Text("stream {number}", number=number)
                lanes.append(Lane(label, "stream", of_rank, max(0, where)))
                continue
            title = self.thread_names.get(where, "")
            label = Text("host thread {thread}", thread=where & _MASK)
            if title:
                label = Text("host thread {thread} ({title})", thread=where & _MASK, title=title)
            lanes.append(Lane(label, "host", of_rank, -1))
        return tuple(lanes), lane

    @staticmethod
    def _correlation(correlation: Ints, rank: Ints) -> Ints:
        """Correlations count anew in each process: the rank goes above them."""
        room = int(correlation.max(initial=0)) + 1
        return np.where(correlation > 0, correlation + rank * room, -1)

    # -- what is recorded of device work ----------------------------------------------------------

    def _recorded(self, events: Events, order: Ints, stream: Ints) -> Recorded:
        rows = np.flatnonzero(events.kind < DEVICE_KINDS)
        old = order[rows]
        columns = {name: self._column(name)[old] for name in _RECORDED}
        launch = _launches(events)
        return Recorded(
            event=rows,
            grid=self._triples("grid")[old],
            block=self._triples("block")[old],
            occupancy=np.full(len(rows), np.nan),
            stream=stream[old],
            launch=launch[rows],
            operator=_around(events, launch[rows]),
            collective=np.full(len(rows), -1, np.int64),
            sequence=np.full(len(rows), -1, np.int64),
            **columns,
        )

    def _column(self, name: str) -> Ints:
        return np.concatenate(
            [
                np.asarray(b.recorded[name], np.int64)
                if name in b.recorded
                else np.full(len(b.rows.start_ns), -1, np.int64)
                for b in self._blocks
            ]
        )

    def _triples(self, name: str) -> Ints:
        return np.concatenate(
            [
                b.recorded[name]
                if name in b.recorded
                else np.full((len(b.rows.start_ns), 3), -1, np.int64)
                for b in self._blocks
            ]
        )

    def _step_windows(self, zero: int) -> tuple[Step, ...]:
        steps = [
            Step(start - zero, end - zero, rank)
            for starts, ends, process in self._steps
            for start, end, rank in zip(
                starts.tolist(), ends.tolist(), self._rank(process).tolist(), strict=True
            )
        ]
        return tuple(sorted(steps, key=lambda step: (step.start_ns, step.rank)))


def _numbered(columns: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Number rows that are equal in all columns, in their order; with the first row of each.

    Each column has few distinct values, so their numbers fit into one: sorting whole rows is many
    times slower.
    """
    packed = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, code = np.unique(column, return_inverse=True)
        packed = packed * len(values) + code.reshape(-1)
    _, first, number = np.unique(packed, return_index=True, return_inverse=True)
    return first, number.reshape(-1)


def _launches(events: Events) -> Ints:
    """The host call with the same correlation, for every event; -1 where there is none."""
    calls = np.flatnonzero((events.kind >= DEVICE_KINDS) & (events.correlation >= 0))
    if not len(calls):
        return np.full(len(events), -1, np.int64)
    # Of several calls (runtime over driver) the outer one, which starts first, counts.
    order = np.argsort(events.correlation[calls], kind="stable")
    numbers, first = np.unique(events.correlation[calls][order], return_index=True)
    at = np.minimum(np.searchsorted(numbers, events.correlation), len(numbers) - 1)
    found = (numbers[at] == events.correlation) & (events.correlation >= 0)
    return np.where(found, calls[order][first[at]], -1)


def _around(events: Events, launch: Ints) -> Ints:
    """The innermost operator (else mark) of the same thread around each launch; -1 if none."""
    found = np.full(len(launch), -1, np.int64)
    ranges = np.isin(events.kind, (Builder.OPERATOR,))
    for lane in np.unique(events.lane[launch[launch >= 0]]).tolist():
        own = np.flatnonzero(ranges & (events.lane == lane))
        mine = np.flatnonzero((launch >= 0) & (events.lane[launch] == lane))
        if not len(own) or not len(mine):
            continue
        found[mine] = _innermost(events, own, events.start_ns[launch[mine]])
    return found


def _innermost(events: Events, ranges: Ints, times: Ints) -> Ints:
    """The last range that starts before each time and has not ended; ranges nest."""
    start, end = events.start_ns[ranges], events.end_ns[ranges]
    ranges = ranges[np.lexsort((-end, start))]
    start, end = events.start_ns[ranges], events.end_ns[ranges]
    parent = np.full(len(ranges), -1, np.int64)
    stack: list[int] = []
    ends = end.tolist()
    for i, begin in enumerate(start.tolist()):
        while stack and ends[stack[-1]] <= begin:
            stack.pop()
        parent[i] = stack[-1] if stack else -1
        stack.append(i)
    at = np.searchsorted(start, times, side="right") - 1
    # Climb out of ranges that ended before the time; as deep as ranges nest.
    while True:
        over = (at >= 0) & (end[np.maximum(at, 0)] <= times)
        if not over.any():
            break
        at = np.where(over, parent[np.maximum(at, 0)], at)
    return np.where(at >= 0, ranges[np.maximum(at, 0)], -1)
