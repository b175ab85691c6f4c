"""Who waits for whom: every collective of several ranks split into transfer and waiting.

A collective's kernel runs on each rank from when that rank comes until all have come and the data
has moved. So of its durations over the ranks the shortest is the transfer (that of the rank which
came last and waited for nobody), and what the others took longer is waiting. What the last rank
did meanwhile is read from its own recording (`gpuscope.analysis.lateness`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.collective_match import Match, match_collectives
from gpuscope.analysis.collective_names import message_bytes
from gpuscope.analysis.columns import OpColumns
from gpuscope.analysis.communication import sort_table
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.host_activity import Hosts
from gpuscope.analysis.lateness import (
    BEGAN,
    COMMUNICATING,
    COMPUTE,
    SLOWER,
    Before,
    RankWork,
    before_calls,
    instead,
    late_reasons,
    rank_work,
)
from gpuscope.analysis.pipeline import pipeline
from gpuscope.analysis.rank_words import rank_sentences
from gpuscope.analysis.recorded_types import (
    LATE_REASONS,
    CollectiveCall,
    CommunicationSort,
    RankShare,
    RankStory,
)
from gpuscope.analysis.straggler import KernelRatio, find_straggler, kernel_ratios
from gpuscope.analysis.window import device_ranks
from gpuscope.timeline.types import Ints, Timeline

Floats = npt.NDArray[np.float64]

NS = 1e-9

_PASSED_ON = LATE_REASONS[COMMUNICATING]

MAX_CALLS = 20
"""Collectives that the story lists one by one."""


def ranks(
    timeline: Timeline,
    match: Match | None = None,
    ops: OpColumns | None = None,
    hosts: Hosts | None = None,
) -> RankStory | None:
    """Tell transfer from waiting over the ranks; None where no collective is on two ranks.

    Args:
        timeline: of several ranks, on one clock (see `gpuscope.timeline.ranks.merge`).
        match: its matched collectives, where they are known already.
        ops, hosts: its operators as columns and what its hosts did, likewise.
    """
    if len(device_ranks(timeline)) < 2:
        return None
    match = match_collectives(timeline) if match is None else match
    if match.count == 0:
        return None
    ops = OpColumns.of(timeline) if ops is None else ops
    hosts = Hosts(timeline, ops) if hosts is None else hosts
    works = {rank: rank_work(timeline, rank, hosts, ops) for rank in match.calls.ranks}
    before = before_calls(match, works)
    transfer = _transfers(match)
    waiting, last = call_waits(match)
    ratios = kernel_ratios(timeline, works)
    host_s = {rank: _host_s(timeline, rank, hosts) for rank in match.calls.ranks}
    reason = _reasons(match, before, last, ratios, host_s)
    rows = match.id >= 0
    caused = np.bincount(match.id[rows], waiting[rows], match.count).astype(np.float64)
    steps, exposed = _steps(timeline), _exposed(match, works, waiting)
    marked = bool(timeline.steps)
    straggler = find_straggler(match, exposed, last, reason, ratios, steps, marked)
    if straggler is not None and timeline.origin == "predicted":
        straggler = replace(straggler, seen="steps")  # the steady step is every step
    if straggler is not None and straggler.reason == _PASSED_ON and pipeline(timeline):
        straggler = None  # a stage that waits for its neighbour: the bubble, not the stage
    story = RankStory(
        ranks=_shares(timeline, match, works, host_s, transfer, waiting, last),
        matched=match.count,
        unmatched=int(((match.id < 0) & ~match.alone).sum()),
        steps=steps,
        span_s=_span_s(works),
        sorts=_sorts(timeline, match, transfer, waiting),
        calls=_calls(timeline, match, works, before, transfer, waiting, last, reason),
        waiting_by_reason=_by_reason(reason, caused),
        causes=_causes(match, last, reason, caused),
        straggler=straggler,
        complete=match.complete,
    )
    return _told(story)


def call_waits(match: Match) -> tuple[Ints, Ints]:
    """Return how long each matched call waits, from its begin, for the last rank to come.

    Returns:
        Nanoseconds by row of `match.calls` (0 where no partner was found), and by collective the
        row of the call whose rank came last.
    """
    return np.where(match.id >= 0, match.calls.duration_ns - _transfers(match), 0), _last(match)


def _told(story: RankStory) -> RankStory:
    return replace(story, sentence=rank_sentences(story))


def _reasons(
    match: Match,
    before: Before,
    last: Ints,
    ratios: Mapping[int, KernelRatio],
    host_s: Mapping[int, float | None],
) -> Ints:
    """Why each collective's last rank was late; its kernels and host compared with the others'."""
    has_more = np.array([ratios[rank].is_more for rank in match.calls.ranks])
    slowest = max((time for time in host_s.values() if time is not None), default=0.0)
    may_be = [(host_s[rank] or slowest) >= slowest for rank in match.calls.ranks]
    reason = late_reasons(match, before, last, has_more, np.array(may_be))
    slower = np.array([ratios[rank].is_slower for rank in match.calls.ranks])
    return np.where((reason == COMPUTE) & slower[match.calls.rank[last]], SLOWER, reason)


def _by_reason(reason: Ints, caused: Floats) -> dict[str, float]:
    """Waiting in seconds by why the last rank was late, most first."""
    table = np.bincount(reason, weights=caused, minlength=len(LATE_REASONS)) * NS
    order = np.argsort(-table, kind="stable").tolist()
    return {LATE_REASONS[i]: float(table[i]) for i in order if table[i] > 0}


def _exposed(match: Match, works: Mapping[int, RankWork], waiting: Ints) -> Ints:
    """The part of each call's waiting that no computation of its rank hides."""
    calls = match.calls
    exposed = waiting.copy()
    for code, rank in enumerate(calls.ranks):
        own = calls.rank == code
        low = calls.start_ns[own]
        exposed[own] -= works[rank].compute.within(low, low + waiting[own])
    return exposed


def _causes(
    match: Match, last: Ints, reason: Ints, caused: Floats
) -> tuple[tuple[int, str, float], ...]:
    """Waiting by the rank that came last and why."""
    size = len(LATE_REASONS)
    cell = match.calls.rank[last] * size + reason
    table = np.bincount(cell, weights=caused, minlength=len(match.calls.ranks) * size)
    return tuple(
        (match.calls.ranks[i // size], LATE_REASONS[i % size], float(table[i]) * NS)
        for i in np.argsort(-table, kind="stable").tolist()
        if table[i] > 0
    )


def _transfers(match: Match) -> Ints:
    """Each call's transfer: the shortest duration over its collective; 0 where unmatched.

    All of its duration where it has no partner because its group is one rank.
    """
    duration = match.calls.duration_ns
    shortest = np.full(match.count, np.iinfo(np.int64).max)
    rows = match.id >= 0
    np.minimum.at(shortest, match.id[rows], duration[rows])
    out = np.where(match.alone, duration, 0)
    out[rows] = shortest[match.id[rows]]
    return out


def _last(match: Match) -> Ints:
    """For each collective the row of the call whose rank came last."""
    rows = np.flatnonzero(match.id >= 0)
    order = rows[np.lexsort((match.arrival_ns[rows], match.id[rows]))]
    ends = np.append(match.id[order][1:] != match.id[order][:-1], True)
    return np.asarray(order[ends], np.int64)


def _shares(
    timeline: Timeline,
    match: Match,
    works: Mapping[int, RankWork],
    host_s: Mapping[int, float | None],
    transfer: Ints,
    waiting: Ints,
    last: Ints,
) -> tuple[RankShare, ...]:
    calls = match.calls
    rows = match.id >= 0
    others = np.bincount(match.id[rows], waiting[rows], match.count)
    caused = others - waiting[last]
    shares = []
    for code, rank in enumerate(calls.ranks):
        own = calls.rank == code
        matched = own & (match.id >= 0)
        compute = works[rank].compute
        low, middle = calls.start_ns[matched], (calls.start_ns + waiting)[matched]
        exposed_waiting = _beyond(Cover.of(low, middle), compute)
        exposed = _beyond(Cover.of(low, calls.end_ns[matched]), compute)
        came_last = calls.rank[last] == code
        offset = match.offsets.get(rank)
        shares.append(
            RankShare(
                rank=rank,
                transfer_s=int(transfer[own].sum()) * NS,
                waiting_s=int(waiting[matched].sum()) * NS,
                unmatched_s=int((calls.duration_ns - transfer)[own & (match.id < 0)].sum()) * NS,
                caused_s=float(caused[came_last].sum()) * NS,
                times_last=int(came_last.sum()),
                exposed_transfer_s=(exposed - exposed_waiting) * NS,
                exposed_waiting_s=exposed_waiting * NS,
                message_bytes=_message_bytes(timeline, match, own),
                compute_s=compute.total_ns * NS,
                clock_offset_s=None if offset is None else offset.offset_ns * NS,
                host_s=host_s[rank],
            )
        )
    return tuple(shares)


def _host_s(timeline: Timeline, rank: int, hosts: Hosts) -> float | None:
    """Seconds a step of a rank's host that it did not stand in synchronisations."""
    marks = [step for step in timeline.steps if step.rank == rank]
    host = hosts(rank)
    if not marks or not host.known:
        return None
    low, high = min(s.start_ns for s in marks), max(s.end_ns for s in marks)
    stood = int(host.syncing.within(np.array([low]), np.array([high]))[0])
    return (high - low - stood) * NS / len(marks)


def _message_bytes(timeline: Timeline, match: Match, own: npt.NDArray[np.bool_]) -> int | None:
    """Messages of these calls together, of those whose size is recorded; None if none is."""
    calls = match.calls
    pairs = np.stack((calls.sort[own], calls.collective[own]))
    kinds, count = np.unique(pairs[:, pairs[1] >= 0], axis=1, return_counts=True)
    sizes = [
        (message_bytes(calls.sorts[sort], timeline.collectives[index]), n)
        for (sort, index), n in zip(kinds.T.tolist(), count.tolist(), strict=True)
    ]
    known = [nbytes * n for nbytes, n in sizes if nbytes is not None]
    return sum(known) if known else None


def _beyond(cover: Cover, other: Cover) -> int:
    """Nanoseconds of one cover outside of another."""
    return cover.total_ns - int(other.within(cover.start_ns, cover.end_ns).sum())


def _steps(timeline: Timeline) -> int:
    """Steps of one rank; 1 where none is marked."""
    count: dict[int, int] = {}
    for step in timeline.steps:
        count[step.rank] = count.get(step.rank, 0) + 1
    return max(count.values(), default=1)


def _span_s(works: Mapping[int, RankWork]) -> float:
    low = min(int(work.work.start_ns.min()) for work in works.values())
    high = max(int(work.work.end_ns.max()) for work in works.values())
    return (high - low) * NS


def _sorts(
    timeline: Timeline, match: Match, transfer: Ints, waiting: Ints
) -> tuple[CommunicationSort, ...]:
    rows = np.flatnonzero(match.id >= 0)
    return sort_table(
        timeline,
        match.calls,
        rows,
        transfer[rows],
        waiting[rows],
        len(match.calls.ranks),
        not match.complete,
        match.sizes,
    )


def _calls(
    timeline: Timeline,
    match: Match,
    works: Mapping[int, RankWork],
    before: Before,
    transfer: Ints,
    waiting: Ints,
    last: Ints,
    reason: Ints,
) -> tuple[CollectiveCall, ...]:
    """The collectives with most waiting."""
    calls = match.calls
    rows = np.flatnonzero(match.id >= 0)
    total = np.bincount(match.id[rows], weights=waiting[rows], minlength=match.count)
    found = []
    for number in np.argsort(-total, kind="stable")[:MAX_CALLS].tolist():
        if total[number] <= 0:
            break
        own = rows[match.id[rows] == number]
        own = own[np.argsort(calls.rank[own], kind="stable")]
        row = int(last[number])
        rank = calls.ranks[int(calls.rank[row])]
        others = np.sort(match.arrival_ns[own[own != row]])
        low, high = int(before.since_ns[row]), int(calls.start_ns[row])
        if reason[number] == BEGAN:
            begun = before.since_ns[own] - match.shift_ns[own]
            middle = float(np.median(begun[own != row]))
            name, time_s = "", float(begun[own == row][0] - middle) * NS
        else:
            name, time_s = instead(timeline, works[rank], low, high, int(reason[number]))
        found.append(
            CollectiveCall(
                name=calls.sorts[int(calls.sort[row])],
                group=calls.groups[int(calls.group[row])][0],
                number=number,
                start_ns=int(calls.start_ns[own].min()),
                ranks=tuple(calls.ranks[code] for code in calls.rank[own].tolist()),
                waits_s=tuple(float(w) * NS for w in waiting[own].tolist()),
                transfer_s=int(transfer[row]) * NS,
                last=rank,
                late_s=float(match.arrival_ns[row] - np.median(others)) * NS,
                lead_s=float(match.arrival_ns[row] - others[-1]) * NS,
                reason=LATE_REASONS[int(reason[number])],
                instead=name,
                instead_s=time_s,
            )
        )
    return tuple(found)
