"""Many ranks' timelines as one: one clock, one string table, every lane with its rank."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.timeline.types import (
    Counter,
    Events,
    Ints,
    Messages,
    Recorded,
    Source,
    Step,
    Timeline,
)

CLOCK_SLACK = 20.0
"""Ranks of one run are recorded together. Where a rank lies further from the others than this many
times the longest recording, its clock is not theirs."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One timeline with what its columns must be moved by."""

    timeline: Timeline
    shift_ns: int
    names: Ints
    collectives: Ints
    lane: int
    kernel: int
    op: int


def merge(timelines: Sequence[Timeline]) -> Timeline:
    """Join the timelines of many ranks into one.

    Times move to one clock by `Source.base_ns`. Where a rank's clock has nothing to do with the
    others' (it lies far away from all of them), its start is set to theirs and a note says so;
    `Source.base_ns` is then the absolute time of the joint zero on that rank's own clock. Names
    and collectives that are equal are stored once; correlations are made distinct over ranks.

    Args:
        timelines: one or more, each of one rank or of several; no rank twice.

    Returns:
        One timeline, events sorted by start (ties: lane order); itself where there is only one.

    Raises:
        InvalidValueError: there is none, a rank comes twice, or predictions and recordings mix.
    """
    parts = list(timelines)
    if not parts:
        raise InvalidValueError(
            Text("There is no timeline to merge."), "", Text("Name at least one trace.")
        )
    if len(parts) == 1:
        return parts[0]
    _check(parts)
    shifts, notes = _shifts(parts)
    names, name_maps = _table([part.names for part in parts])
    collectives, collective_maps = _table([part.collectives for part in parts])
    placed = []
    lane = kernel = op = 0
    for part, shift, name_map, collective_map in zip(
        parts, shifts, name_maps, collective_maps, strict=True
    ):
        placed.append(_Part(part, shift, name_map, collective_map, lane, kernel, op))
        lane += len(part.lanes)
        kernel += len(part.kernels)
        op += len(part.ops)
    events, order = _events(placed)
    return Timeline(
        names=tuple(names),
        lanes=tuple(lane for part in parts for lane in part.lanes),
        events=events,
        counters=_counters(placed),
        steps=_steps(placed),
        kernels=tuple(kernel for part in parts for kernel in part.kernels),
        ops=tuple(op for part in parts for op in part.ops),
        origin=parts[0].origin,
        notes=tuple(dict.fromkeys((*(note for part in parts for note in part.notes), *notes))),
        recorded=_recorded(placed, order),
        collectives=tuple(collectives),
        sources=_sources(placed),
        messages=_messages(placed, order),
        stands_for={rank: own for part in parts for rank, own in part.stands_for.items()},
    )


def ranks_of(timeline: Timeline) -> tuple[int, ...]:
    """Return the ranks that a timeline's lanes, steps and sources name, ascending."""
    found = {lane.rank for lane in timeline.lanes}
    found |= {step.rank for step in timeline.steps}
    found |= {source.rank for source in timeline.sources}
    return tuple(sorted(found))


def with_rank(timeline: Timeline, rank: int) -> Timeline:
    """Return a timeline of one rank under another number.

    Raises:
        InvalidValueError: it has several ranks.
    """
    ranks = ranks_of(timeline)
    if len(ranks) > 1:
        raise InvalidValueError(
            Text(
                "A timeline of {ranks} ranks cannot become rank {rank}.",
                ranks=len(ranks),
                rank=rank,
            ),
            Text("Its ranks differ."),
        )
    return replace(
        timeline,
        lanes=tuple(replace(lane, rank=rank) for lane in timeline.lanes),
        steps=tuple(replace(step, rank=rank) for step in timeline.steps),
        sources=tuple(replace(source, rank=rank) for source in timeline.sources),
        stands_for=dict(zip((rank,), timeline.stands_for.values(), strict=False)),
    )


def _check(parts: Sequence[Timeline]) -> None:
    if len({part.origin for part in parts}) > 1:
        raise InvalidValueError(
            Text("Predicted and recorded timelines cannot be merged."),
            Text("Their times have nothing in common."),
            Text("Compare them instead: gpuscope compare a.json b.json"),
        )
    seen: set[int] = set()
    for part in parts:
        twice = seen & set(ranks_of(part))
        if twice:
            raise InvalidValueError(
                Text("Rank {twice} comes twice.", twice=min(twice)),
                Text("Each rank can be there once."),
                Text("Leave one of its traces out."),
            )
        seen |= set(ranks_of(part))


# -- one clock ------------------------------------------------------------------------------------


def _shifts(parts: Sequence[Timeline]) -> tuple[list[int], list[str]]:
    """Nanoseconds to add to each part's times, and what to say about it."""
    bases = [part.sources[0].base_ns if part.sources else 0 for part in parts]
    spans = [_span(part) for part in parts]
    absolute = [
        (base + span[0], base + span[1]) if span else (base, base)
        for base, span in zip(bases, spans, strict=True)
    ]
    together = _together(absolute)
    zero = min(bases[i] for i in together)
    first = min(absolute[i][0] for i in together)
    shifts, apart = [], []
    for i, base in enumerate(bases):
        if i in together:
            shifts.append(base - zero)
        else:
            shifts.append(first - zero - (absolute[i][0] - base))
            apart.append(i)
    return shifts, _clock_notes(parts, apart)


def _span(part: Timeline) -> tuple[int, int] | None:
    if not len(part.events):
        return None
    return int(part.events.start_ns.min()), int(part.events.end_ns.max())


def _together(spans: Sequence[tuple[int, int]]) -> set[int]:
    """The largest set of recordings that lie near each other in time."""
    longest = max(end - start for start, end in spans)
    slack = max(int(longest * CLOCK_SLACK), 1_000_000_000)
    order = sorted(range(len(spans)), key=lambda i: spans[i][0])
    groups: list[list[int]] = []
    reach = 0
    for i in order:
        if groups and spans[i][0] - reach <= slack:
            groups[-1].append(i)
        else:
            groups.append([i])
        reach = max(reach, spans[i][1]) if len(groups[-1]) > 1 else spans[i][1]
    sizes = [len(group) for group in groups]
    return set(groups[sizes.index(max(sizes))])


def _clock_notes(parts: Sequence[Timeline], apart: Sequence[int]) -> list[str]:
    if not apart:
        return []
    ranks = sorted(rank for i in apart for rank in ranks_of(parts[i]))
    named = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return [
        Text(
            "The clock of rank {named} is not that of the others: its start was set to theirs, so "
            "times across ranks cannot be compared.",
            named=named,
        )
    ]


# -- tables and columns ---------------------------------------------------------------------------


def _table(tables: Sequence[Sequence[Any]]) -> tuple[list[Any], list[Ints]]:
    """One table of distinct entries, and for each old table the new index of its rows."""
    number: dict[Hashable, int] = {}
    rows: list[Any] = []
    maps = []
    for table in tables:
        new = np.empty(len(table), np.int64)
        for i, entry in enumerate(table):
            found = number.get(entry)
            if found is None:
                found = number[entry] = len(rows)
                rows.append(entry)
            new[i] = found
        maps.append(new)
    return rows, maps


def _moved(column: Ints, by: int) -> Ints:
    """Add to every index but -1."""
    return np.where(column >= 0, column + by, column)


def _mapped(column: Ints, table: Ints) -> Ints:
    """Look every index but -1 up."""
    if not len(table):
        return column
    return np.where(column >= 0, table[column], column)


def _events(parts: Sequence[_Part]) -> tuple[Events, Ints]:
    """All events in order, and which old row (parts in a row) each one was."""
    correlation, correlations = 0, []
    for part in parts:
        own = part.timeline.events.correlation
        correlations.append(_moved(own, correlation))
        correlation += int(own.max(initial=-1)) + 1
    columns = {
        "start_ns": [p.timeline.events.start_ns + p.shift_ns for p in parts],
        "duration_ns": [p.timeline.events.duration_ns for p in parts],
        "name": [_mapped(p.timeline.events.name, p.names) for p in parts],
        "kind": [p.timeline.events.kind for p in parts],
        "lane": [p.timeline.events.lane + p.lane for p in parts],
        "op": [_moved(p.timeline.events.op, p.op) for p in parts],
        "kernel": [_moved(p.timeline.events.kernel, p.kernel) for p in parts],
        "correlation": correlations,
    }
    whole = {name: np.concatenate(column) for name, column in columns.items()}
    order = np.lexsort((whole["lane"], whole["start_ns"]))
    return Events(**{name: column[order] for name, column in whole.items()}), order


def _recorded(parts: Sequence[_Part], order: Ints) -> Recorded | None:
    if all(part.timeline.recorded is None for part in parts):
        return None
    row_of = np.empty(len(order), np.int64)
    row_of[order] = np.arange(len(order))
    columns: dict[str, list[Any]] = {field.name: [] for field in fields(Recorded)}
    offset = 0
    for part in parts:
        own = part.timeline.recorded
        if own is not None:
            for field in fields(Recorded):
                columns[field.name].append(getattr(own, field.name))
            for name in ("event", "launch", "operator"):
                old = columns[name][-1]
                columns[name][-1] = np.where(old >= 0, row_of[old + offset], -1)
            columns["collective"][-1] = _mapped(columns["collective"][-1], part.collectives)
        offset += len(part.timeline.events)
    whole = {name: np.concatenate(column) for name, column in columns.items()}
    rows = np.argsort(whole["event"], kind="stable")
    return Recorded(**{name: column[rows] for name, column in whole.items()})


def _messages(parts: Sequence[_Part], order: Ints) -> Messages | None:
    """The communication calls of all parts, by row of the joint events."""
    row_of = np.empty(len(order), np.int64)
    row_of[order] = np.arange(len(order))
    event, collective, sequence, offset = [], [], [], 0
    for part in parts:
        own = part.timeline.messages
        if own is not None:
            event.append(row_of[own.event + offset])
            collective.append(_mapped(own.collective, part.collectives))
            sequence.append(own.sequence)
        offset += len(part.timeline.events)
    if not event:
        return None
    events = np.concatenate(event)
    rows = np.argsort(events, kind="stable")
    return Messages(events[rows], np.concatenate(collective)[rows], np.concatenate(sequence)[rows])


def _counters(parts: Sequence[_Part]) -> tuple[Counter, ...]:
    """The counters of the first rank that has any: devices are not added up."""
    for part in parts:
        if part.timeline.counters:
            return tuple(
                replace(counter, time_ns=counter.time_ns + part.shift_ns)
                for counter in part.timeline.counters
            )
    return ()


def _steps(parts: Iterable[_Part]) -> tuple[Step, ...]:
    moved = [
        Step(step.start_ns + part.shift_ns, step.end_ns + part.shift_ns, step.rank)
        for part in parts
        for step in part.timeline.steps
    ]
    return tuple(sorted(moved, key=lambda step: (step.start_ns, step.rank)))


def _sources(parts: Iterable[_Part]) -> tuple[Source, ...]:
    return tuple(
        sorted(
            (
                replace(source, base_ns=source.base_ns - part.shift_ns)
                for part in parts
                for source in part.timeline.sources
            ),
            key=lambda source: source.rank,
        )
    )
