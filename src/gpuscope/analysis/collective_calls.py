"""The communication kernels of all ranks as columns, each with its sort and its group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuscope.analysis.collective_names import sort_of
from gpuscope.analysis.window import COMMUNICATION
from gpuscope.timeline.types import Collective, Ints, Timeline

Group = tuple[str, tuple[int, ...], int | None]
"""Name ("" if unknown), members (() if unknown), size (None if unknown)."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Communication kernels of all ranks as columns, sorted by start.

    Attributes:
        event: row in `Timeline.events`.
        rank: index into `ranks`.
        start_ns, end_ns: times on the timeline's clock.
        group: index into `groups`.
        sort: index into `sorts`.
        collective: index into `Timeline.collectives`, or -1.
        elements: message elements, -1 if unknown.
        sequence: -1 if unknown.
        ranks: rank numbers.
        groups: (group name, members or (), size or None).
        sorts: plain names of collectives.
    """

    event: Ints
    rank: Ints
    start_ns: Ints
    end_ns: Ints
    group: Ints
    sort: Ints
    collective: Ints
    elements: Ints
    sequence: Ints
    ranks: tuple[int, ...]
    groups: tuple[Group, ...]
    sorts: tuple[str, ...]

    def __len__(self) -> int:
        """Number of communication kernels."""
        return len(self.event)

    @property
    def duration_ns(self) -> Ints:
        """How long each kernel ran."""
        return self.end_ns - self.start_ns


def communication_calls(timeline: Timeline) -> Calls:
    """Return the communication kernels of all ranks with their group and sort."""
    events = timeline.events
    rows = np.flatnonzero(events.kind == COMMUNICATION)
    of_lane = np.array([lane.rank for lane in timeline.lanes], np.int64)
    rank_number = of_lane[events.lane[rows]] if len(rows) else np.zeros(0, np.int64)
    ranks = tuple(np.unique(rank_number).tolist())
    collective, sequence = _recorded_columns(timeline, rows)
    sorts, sort = _sorts(timeline, collective, events.name[rows])
    groups, group = _groups(timeline, collective, rank_number, events.lane[rows])
    elements = np.full(len(timeline.collectives) + 1, -1, np.int64)
    for i, each in enumerate(timeline.collectives):
        elements[i] = max(each.in_elements or 0, each.out_elements or 0) or -1
    return Calls(
        event=rows,
        rank=np.searchsorted(np.array(ranks, np.int64), rank_number),
        start_ns=events.start_ns[rows],
        end_ns=events.end_ns[rows],
        group=group,
        sort=sort,
        collective=collective,
        elements=elements[collective],
        sequence=sequence,
        ranks=ranks,
        groups=groups,
        sorts=sorts,
    )


def _recorded_columns(timeline: Timeline, rows: Ints) -> tuple[Ints, Ints]:
    """Index of the collective and sequence number of these events, -1 where unknown."""
    recorded = timeline.recorded if timeline.messages is None else timeline.messages
    unknown = np.full(len(rows), -1, np.int64)
    if recorded is None or len(recorded) == 0 or len(rows) == 0:
        return unknown, unknown.copy()
    at = np.minimum(np.searchsorted(recorded.event, rows), len(recorded) - 1)
    known = recorded.event[at] == rows
    return (
        np.where(known, recorded.collective[at], -1),
        np.where(known, recorded.sequence[at], -1),
    )


def _sorts(timeline: Timeline, collective: Ints, name: Ints) -> tuple[tuple[str, ...], Ints]:
    """Plain names, and each call's index: from the recorded collective, else the kernel's name."""
    table: dict[str, int] = {}

    def code(text: str) -> int:
        return table.setdefault(sort_of(text), len(table))

    said = np.array([code(c.name) if c.name else -1 for c in timeline.collectives] + [-1], np.int64)
    sort = said[collective]
    for index in np.unique(name[sort < 0]).tolist():
        sort[(sort < 0) & (name == index)] = code(timeline.names[index])
    return tuple(table), sort


def _groups(
    timeline: Timeline, collective: Ints, rank: Ints, lane: Ints
) -> tuple[tuple[Group, ...], Ints]:
    """The groups by members where known, else by name; and each call's index."""
    listed = {source.rank: source.groups for source in timeline.sources}
    table: dict[object, int] = {}
    groups: list[Group] = []
    pairs, inverse = np.unique(np.stack((collective, rank)), axis=1, return_inverse=True)
    codes = np.full(pairs.shape[1], -1, np.int64)
    for i, (index, number) in enumerate(pairs.T.tolist()):
        said = timeline.collectives[index] if index >= 0 else Collective("")
        members = said.group_ranks or tuple(listed.get(number, {}).get(said.group, ()))
        members = tuple(sorted(members))
        if not members and not said.group and said.group_size is None:
            continue
        # One name may stand for another group on another rank: members decide where known.
        key = ("ranks", members, said.group) if members else ("name", said.group, said.group_size)
        if key not in table:
            table[key] = len(groups)
            groups.append((said.group, members, len(members) or said.group_size))
        codes[i] = table[key]
    group = codes[inverse.reshape(-1)] if len(collective) else codes
    group = _inherited(group, lane)
    if (group < 0).any():
        group = np.where(group < 0, len(groups), group)
        groups.append(("", (), None))
    return tuple(groups), group


def _inherited(group: Ints, lane: Ints) -> Ints:
    """Give calls of unknown group that of their stream, where it has only one.

    A recording that begins midway holds kernels whose call, and so whose group, came before it.
    """
    out = group.copy()
    for stream in np.unique(lane[group < 0]).tolist():
        own = lane == stream
        known = np.unique(group[own & (group >= 0)])
        if len(known) == 1:
            out[own] = known[0]
    return out
