"""The mesh of ranks: which ranks talk in which groups, and how many bytes go from whom to whom.

What a collective must move from one rank to another does not depend on its algorithm. With n ranks
and a message of m bytes (counted as nccl-tests do, see `gpuscope.analysis.collective_names`), each
rank sends each other one

    all_gather       m / n    its own part
    reduce_scatter   m / n    its contribution to the other's part
    all_reduce       2 m / n  the two above, one after the other
    all_to_all       m / n    what is meant for the other (even parts taken, where sizes differ)
    send, recv       m        where the pair is certain

so that what a rank sends in all is message x bus factor. A ring passes most of it on through
neighbours, a switch adds up on the way: the wires may carry other amounts, the data do not.
Collectives with one root (broadcast, reduce, gather, scatter) do not say in a recording who the
root is: they are counted, not drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpuscope.analysis.collective_calls import Calls
from gpuscope.analysis.collective_match import Match, match_collectives
from gpuscope.analysis.collective_names import message_bytes
from gpuscope.analysis.columns import Floats
from gpuscope.analysis.recorded_types import RankStory
from gpuscope.timeline.types import Ints, Timeline

MOST_DRAWN = 64
"""Ranks whose flows are listed pair by pair; of more, only the groups are."""

_EACH = {"all_gather": 1.0, "reduce_scatter": 1.0, "all_reduce": 2.0, "all_to_all": 1.0}
"""Parts of the message (of which there are as many as ranks) that go from one rank to another."""

_PAIR = frozenset({"send", "recv"})

NS = 1e-9


@dataclass(frozen=True, slots=True)
class MeshRank:
    """One rank; times and bytes are per step, None where unknown.

    Attributes:
        rank: its number.
        host: of the machine; "" if the recording does not say.
        device: index of its device within the host; None if unknown.
        recorded: it has a recording of its own (else it is only named as a member of a group).
        compute_s: union of its kernels that are not communication.
        communication_s: sum of its communication kernels.
        transfer_s, waiting_s: parts of that, where several ranks tell them apart.
        caused_s: what other ranks waited for it.
        sent_bytes: what it must send to others at least; None if no message's size is known.
    """

    rank: int
    host: str
    device: int | None
    recorded: bool
    compute_s: float | None
    communication_s: float
    transfer_s: float | None
    waiting_s: float | None
    caused_s: float | None
    sent_bytes: float | None


@dataclass(frozen=True, slots=True)
class MeshSort:
    """Equal collectives of a group, on one rank and per step (means over the recorded ranks).

    Attributes:
        name: "all_reduce", ...
        dtype: torch's name; "" if unknown.
        count: calls; a fraction where not every step has one.
        message_bytes: of one call; None if unknown.
        sent_bytes: what the rank must send at least in all these calls; None if unknown.
        time_s: of the kernels, waiting included.
    """

    name: str
    dtype: str
    count: float
    message_bytes: float | None
    sent_bytes: float | None
    time_s: float


@dataclass(frozen=True, slots=True)
class MeshGroup:
    """A process group with what it does; the calls that matter most come first.

    Attributes:
        name: as recorded; "" if unknown.
        ranks: its members; () if not recorded.
        size: how many; None if unknown.
        sorts: its collectives, most time first.
    """

    name: str
    ranks: tuple[int, ...]
    size: int | None
    sorts: tuple[MeshSort, ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """What one rank sends another within a group, bytes per step."""

    sender: int
    receiver: int
    group: int
    sent_bytes: float


@dataclass(frozen=True, slots=True)
class Mesh:
    """Ranks, groups and flows.

    Attributes:
        ranks: ascending; members of groups without a recording included.
        groups: most time first.
        flows: from each recorded rank; () where there are more than `MOST_DRAWN` ranks.
        steps: how many steps the sums were divided by.
        unplaced: communication kernels of which size, partners or root are not known.
    """

    ranks: tuple[MeshRank, ...]
    groups: tuple[MeshGroup, ...]
    flows: tuple[Flow, ...]
    steps: int
    unplaced: int


def mesh(
    timeline: Timeline,
    story: RankStory | None,
    compute_s: dict[int, float],
    devices_per_node: int = 0,
) -> Mesh | None:
    """Return who sends what to whom; None where no rank talks to another.

    Args:
        timeline: a recording or a prediction, all ranks.
        story: what `gpuscope.analysis.ranks` found, where several ranks were recorded.
        compute_s: union of compute kernels by rank, over the whole timeline.
        devices_per_node: of a prediction, ranks that a host holds, node after node; 0 if unknown.
    """
    match = match_collectives(timeline)
    calls = match.calls
    own = {source.rank for source in timeline.sources} or {lane.rank for lane in timeline.lanes}
    members = own.union(*(group[1] for group in calls.groups)) if len(calls) else own
    known = timeline.recorded is not None or timeline.messages is not None
    if not known or not len(calls) or len(members) < 2:
        return None
    drawn_all = len(members) <= MOST_DRAWN
    if timeline.stands_for and not drawn_all:
        members = own  # each distinct rank of a large job, in place of all
    steps = _steps(timeline)
    sent = _Sent(timeline, match, sorted(members))
    numbers = _busiest(calls)
    order = {group: at for at, group in enumerate(numbers)}
    return Mesh(
        ranks=tuple(
            _placed(_rank(timeline, sent, r, story, compute_s, steps), devices_per_node)
            for r in sorted(members)
        ),
        groups=tuple(_group(timeline, match, sent, group, steps) for group in numbers),
        flows=tuple(sent.flows(order, steps)) if drawn_all else (),
        steps=steps,
        unplaced=int(np.isnan(sent.total).sum()),
    )


def _steps(timeline: Timeline) -> int:
    """Steps of the rank that has most."""
    marks = np.array([step.rank for step in timeline.steps], np.int64)
    return int(np.unique(marks, return_counts=True)[1].max(initial=1))


def _busiest(calls: Calls) -> list[int]:
    """Groups that have calls, most time first."""
    time = np.zeros(len(calls.groups))
    np.add.at(time, calls.group, calls.duration_ns)
    used = np.unique(calls.group)
    return [int(group) for group in used[np.argsort(-time[used], kind="stable")]]


class _Sent:
    """Bytes that each call sends: in all, and to whom.

    Attributes:
        calls: the columns.
        message: of each call; NaN if unknown.
        total: what its rank sends to all others; NaN where size or partners are not known.
    """

    def __init__(self, timeline: Timeline, match: Match, ranks: list[int]) -> None:
        self.calls = calls = match.calls
        self._ranks = ranks
        self._sizes = match.sizes
        self.message = self._messages(timeline)
        self.total = np.full(len(calls), np.nan)
        self._to: dict[tuple[int, int, int], float] = {}
        for number, (sort, group) in enumerate(self._kinds()):
            rows = np.flatnonzero(self._kind == number)
            name, size = calls.sorts[sort], match.sizes[group]
            if name in _EACH and size:
                self.total[rows] = self.message[rows] * _EACH[name] * (size - 1) / size
                self._spread(rows, group, _EACH[name] / size)
        self._pairs(match)

    def _kinds(self) -> list[tuple[int, int]]:
        key = np.stack((self.calls.sort, self.calls.group))
        found, inverse = np.unique(key, axis=1, return_inverse=True)
        self._kind = inverse.reshape(-1)
        return [(int(sort), int(group)) for sort, group in found.T]

    def _messages(self, timeline: Timeline) -> Floats:
        calls = self.calls
        key = np.stack((calls.collective, calls.sort))
        found, inverse = np.unique(key, axis=1, return_inverse=True)
        sizes = [
            message_bytes(calls.sorts[sort], timeline.collectives[at]) if at >= 0 else None
            for at, sort in found.T.tolist()
        ]
        table = np.array([np.nan if size is None else size for size in sizes], np.float64)
        return table[inverse.reshape(-1)]

    def members(self, group: int) -> tuple[int, ...]:
        """Ranks of a group; all of them where only its size is known and fits; else ()."""
        listed = self.calls.groups[group][1]
        whole = self._sizes[group] == len(self._ranks)
        return listed or (tuple(self._ranks) if whole else ())

    def _spread(self, rows: Ints, group: int, share: float) -> None:
        """Each call's rank sends each other member the same share of the message."""
        members = self.members(group)
        for rank in np.unique(self.calls.rank[rows]).tolist():
            own = rows[self.calls.rank[rows] == rank]
            amount = float(np.nansum(self.message[own])) * share
            sender = self.calls.ranks[rank]
            for receiver in members:
                if receiver != sender and amount > 0:
                    self._add(sender, receiver, group, amount)

    def _pairs(self, match: Match) -> None:
        """Sends whose receive is certain."""
        calls = self.calls
        single = np.array([sort in _PAIR for sort in calls.sorts], bool)[calls.sort]
        partner: dict[int, int] = {}
        for row in np.flatnonzero(single & (match.id >= 0)).tolist():
            other = partner.setdefault(int(match.id[row]), row)
            if other == row:
                continue
            send, receive = (
                (row, other) if calls.sorts[int(calls.sort[row])] == "send" else (other, row)
            )
            amount = np.nanmax(np.append(self.message[[send, receive]], -1.0))
            amount = amount if amount >= 0 else np.nan
            self.total[send], self.total[receive] = amount, 0.0
            if amount > 0:
                sender, receiver = (calls.ranks[int(calls.rank[at])] for at in (send, receive))
                self._add(sender, receiver, int(calls.group[send]), float(amount))

    def _add(self, sender: int, receiver: int, group: int, amount: float) -> None:
        key = sender, receiver, group
        self._to[key] = self._to.get(key, 0.0) + amount

    def flows(self, order: dict[int, int], steps: int) -> Iterator[Flow]:
        """All flows, by group and then by ranks."""
        for sender, receiver, group in sorted(self._to, key=lambda k: (order[k[2]], k[0], k[1])):
            amount = self._to[sender, receiver, group]
            yield Flow(sender, receiver, order[group], amount / steps)


def _rank(
    timeline: Timeline,
    sent: _Sent,
    rank: int,
    story: RankStory | None,
    compute_s: dict[int, float],
    steps: int,
) -> MeshRank:
    calls = sent.calls
    rows = np.flatnonzero(calls.rank == calls.ranks.index(rank)) if rank in calls.ranks else None
    share = next((s for s in story.ranks if s.rank == rank), None) if story else None
    source = next((s for s in timeline.sources if s.rank == rank), None)
    devices = {lane.device for lane in timeline.lanes if lane.rank == rank and lane.device >= 0}
    computes = compute_s.get(rank)
    return MeshRank(
        rank=rank,
        host=source.host if source else "",
        device=devices.pop() if len(devices) == 1 else None,
        recorded=rows is not None or rank in compute_s,
        compute_s=None if computes is None else computes / steps,
        communication_s=0.0 if rows is None else int(calls.duration_ns[rows].sum()) * NS / steps,
        transfer_s=share.transfer_s / steps if share else None,
        waiting_s=share.waiting_s / steps if share else None,
        caused_s=share.caused_s / steps if share else None,
        sent_bytes=None if rows is None else _mean(sent.total[rows], steps),
    )


def _placed(rank: MeshRank, devices_per_node: int) -> MeshRank:
    """A rank of a prediction on its node."""
    if not devices_per_node:
        return rank
    node, device = divmod(rank.rank, devices_per_node)
    return replace(rank, host=f"node {node}", device=device)


def _mean(values: Floats, parts: int) -> float | None:
    """The sum of what is known over a number of parts; None where nothing is."""
    return None if np.isnan(values).all() else float(np.nansum(values)) / parts


def _group(timeline: Timeline, match: Match, sent: _Sent, group: int, steps: int) -> MeshGroup:
    calls = match.calls
    rows = np.flatnonzero(calls.group == group)
    ranks = len(np.unique(calls.rank[rows]))
    dtypes = [*(c.dtype for c in timeline.collectives), ""]
    kinds: dict[tuple[str, str, float], list[int]] = {}
    for row in rows.tolist():
        size = float(sent.message[row])
        key = (
            calls.sorts[int(calls.sort[row])],
            dtypes[int(calls.collective[row])],
            -1.0 if np.isnan(size) else size,
        )
        kinds.setdefault(key, []).append(row)
    sorts = []
    for (name, dtype, size), own in kinds.items():
        total = sent.total[own]
        sorts.append(
            MeshSort(
                name=name,
                dtype=dtype,
                count=len(own) / ranks / steps,
                message_bytes=size if size >= 0 else None,
                sent_bytes=_mean(total, ranks * steps),
                time_s=int(calls.duration_ns[own].sum()) * NS / ranks / steps,
            )
        )
    return MeshGroup(
        calls.groups[group][0],
        sent.members(group),
        match.sizes[group],
        tuple(sorted(sorts, key=lambda sort: -sort.time_s)),
    )
