"""What a rank did between two collectives, and why it came to the second one last.

What made a rank late is what it spent more on than the others since it came to the collective
before: device work, other communication, or idle time by its cause. Where nothing of this explains
it, the rank was late there already and has not caught up (communication that runs beside
computation does not bring the ranks together again): the reason is that of the collective before.
The first collective of a recording has none before it: there a rank may be late because its
recording, or its first step, began late.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.collective_match import Match
from gpuscope.analysis.columns import OpColumns
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.host_activity import Hosts
from gpuscope.analysis.idle import DATA, DISPATCHING, SYNCHRONISING, IdlePieces, idle_pieces
from gpuscope.analysis.recorded_types import LATE_REASONS
from gpuscope.analysis.trust_checks.profiler import OVERHEAD
from gpuscope.analysis.window import COMMUNICATION, DeviceWork, Window, device_work, rank_rows
from gpuscope.timeline.types import Ints, Timeline

Floats = npt.NDArray[np.float64]

BEGAN, COMPUTE, SLOWER, DISPATCH, SYNC, INPUT, COMMUNICATING, UNKNOWN = range(len(LATE_REASONS))
"""Indexes into `LATE_REASONS`; COMPUTE is "more work" until kernels have been compared."""

CARRIED_SHARE = 0.5
"""New reasons must explain at least this share of a rank's lateness."""

_MOST = np.iinfo(np.int64).max // 4


@dataclass(frozen=True, slots=True)
class RankWork:
    """One rank's device and host as far as lateness is concerned.

    Attributes:
        rank: its number.
        begin_ns: its first step's start, else its first event.
        work: all of its device work.
        compute: union of the work that is not communication.
        communication: union of its communication.
        pieces: its idle time by cause.
        idle: by idle cause that is told apart, the union of its pieces.
    """

    rank: int
    begin_ns: int
    work: DeviceWork
    compute: Cover
    communication: Cover
    pieces: IdlePieces
    idle: dict[int, Cover]


@dataclass(frozen=True, slots=True)
class Before:
    """What each call's rank did since it came to its last matched collective; as in `Calls`.

    Attributes:
        since_ns: when it came there, or where the rank began, on the rank's own clock.
        row: the call before; -1 for the first.
        spent_ns: (number of calls, `LATE_REASONS`) nanoseconds; BEGAN stays 0, SLOWER too.
    """

    since_ns: Ints
    row: Ints
    spent_ns: Ints


def rank_work(timeline: Timeline, rank: int, hosts: Hosts, ops: OpColumns) -> RankWork:
    """Return a rank's device work and idle time over its whole timeline."""
    events = timeline.events
    rows = rank_rows(timeline, rank)
    marks = [step.start_ns for step in timeline.steps if step.rank == rank]
    everything = device_work(timeline, rank, Window(-_MOST, _MOST, 1))
    low = int(everything.start_ns.min(initial=_MOST))
    high = int(everything.end_ns.max(initial=-_MOST))
    if low > high:
        low = high = 0
    begin = min(marks) if marks else int(events.start_ns[rows].min(initial=low))
    low = min(low, begin)
    work = device_work(timeline, rank, Window(low, high, 1))
    pieces = idle_pieces(timeline, work, hosts(rank), ops)
    talks = work.kind == COMMUNICATION
    return RankWork(
        rank=rank,
        begin_ns=begin,
        work=work,
        compute=Cover.of(work.start_ns[~talks], work.end_ns[~talks]),
        communication=Cover.of(work.start_ns[talks], work.end_ns[talks]),
        pieces=pieces,
        idle={
            cause: Cover.of(
                pieces.start_ns[pieces.cause == cause], pieces.end_ns[pieces.cause == cause]
            )
            for cause in (DISPATCHING, SYNCHRONISING, DATA)
        },
    )


def before_calls(match: Match, works: dict[int, RankWork]) -> Before:
    """Return what every matched call's rank did since its last matched collective."""
    calls = match.calls
    since = calls.start_ns.copy()
    previous = np.full(len(calls), -1, np.int64)
    spent = np.zeros((len(calls), len(LATE_REASONS)), np.int64)
    for code, rank in enumerate(calls.ranks):
        own = np.flatnonzero((calls.rank == code) & (match.id >= 0))
        if len(own) == 0:
            continue
        work = works[rank]
        begin = min(work.begin_ns, int(calls.start_ns[own[0]]))
        since[own] = np.concatenate(([begin], calls.start_ns[own[:-1]]))
        previous[own[1:]] = own[:-1]
        low, high = since[own], calls.start_ns[own]
        spent[own, COMPUTE] = work.compute.within(low, high)
        both = Cover.of(
            np.concatenate((work.compute.start_ns, work.communication.start_ns)),
            np.concatenate((work.compute.end_ns, work.communication.end_ns)),
        )
        busy = both.within(low, high)
        spent[own, COMMUNICATING] = busy - spent[own, COMPUTE]
        for cause, reason in ((DISPATCHING, DISPATCH), (SYNCHRONISING, SYNC), (DATA, INPUT)):
            spent[own, reason] = work.idle[cause].within(low, high)
        spent[own, UNKNOWN] = high - low - spent[own].sum(axis=1)
    return Before(since, previous, spent)


def late_reasons(
    match: Match,
    before: Before,
    last: Ints,
    has_more: npt.NDArray[np.bool_],
    slow_host: npt.NDArray[np.bool_] | None = None,
) -> Ints:
    """Return why the last rank of each collective was late, as an index into `LATE_REASONS`.

    Args:
        match: the collectives.
        before: what each rank did before.
        last: for each collective the row in `Calls` of the rank that came last.
        has_more: for each of `Calls.ranks`, whether its kernels take longer in all than those of
            the others. If not, it only did later what they had done before.
        slow_host: likewise, whether its host may be the slowest of all; None: any may. A rank
            whose recording began late and whose host is not the slowest loses nothing to the
            others by its host: as long as it comes last, it has not made up for the late start.
    """
    excess = np.empty((match.count, len(LATE_REASONS)))
    for reason in range(len(LATE_REASONS)):
        excess[:, reason] = _excess(match, before.spent_ns[:, reason].astype(np.float64), last)
    first = before.row[last] < 0
    since = (before.since_ns - match.shift_ns).astype(np.float64)
    excess[:, BEGAN] = np.where(first, _excess(match, since, last), 0.0)
    late = _excess(match, match.arrival_ns.astype(np.float64), last)
    largest = excess.max(axis=1)
    chosen = np.where(largest > 0, excess.argmax(axis=1), UNKNOWN)
    # Late before and not for a new reason: the old one goes on.
    no_more = (chosen == COMPUTE) & ~has_more[match.calls.rank[last]]
    held = ((largest < CARRIED_SHARE * late) | no_more) & ~first
    previous = np.where(first, 0, match.id[before.row[last]])
    held &= match.calls.rank[last[previous]] == match.calls.rank[last]
    behind = np.zeros(match.count, bool)
    if slow_host is not None:
        behind = (chosen == DISPATCH) & ~slow_host[match.calls.rank[last]] & ~first
        behind &= match.calls.rank[last[previous]] == match.calls.rank[last]
    reasons = chosen.tolist()
    for number in np.flatnonzero(held | behind).tolist():  # in time order, so chains resolve
        old = reasons[int(previous[number])]
        if held[number] or old == BEGAN:
            reasons[number] = old
    return np.array(reasons, np.int64)


def _excess(match: Match, value: Floats, last: Ints) -> Floats:
    """The last rank's value less the median of the others', for each collective."""
    rows = np.flatnonzero(match.id >= 0)
    table = np.full((match.count, len(match.calls.ranks)), np.nan)
    table[match.id[rows], match.calls.rank[rows]] = value[rows]
    own = value[last]
    table[np.arange(match.count), match.calls.rank[last]] = np.nan
    lonely = np.isnan(table).all(axis=1)
    table[lonely, 0] = own[lonely]
    return np.asarray(own - np.nanmedian(table, axis=1), np.float64)


def instead(
    timeline: Timeline, work: RankWork, low_ns: int, high_ns: int, reason: int
) -> tuple[str, float]:
    """Name what a rank spent most time on in [low, high), and for how many seconds.

    Kernels where it was busy; what its host was in where its device was idle. "" where for most
    of it nothing is recorded on the host: Python between operators, sleep, other processes. Where
    the profiler itself took longer than that, it is named ("profiler: Activity Buffer Request").
    """
    device = work.work
    if reason in (COMPUTE, SLOWER, COMMUNICATING):
        cut = np.minimum(device.end_ns, high_ns) - np.maximum(device.start_ns, low_ns)
        wanted = (device.kind == COMMUNICATION) == (reason == COMMUNICATING)
        return _longest(timeline, device.name, np.where(wanted, cut, 0))
    pieces = work.pieces
    cut = np.minimum(pieces.end_ns, high_ns) - np.maximum(pieces.start_ns, low_ns)
    wanted = np.ones(len(pieces), bool)
    cause = {DISPATCH: DISPATCHING, SYNC: SYNCHRONISING, INPUT: DATA}.get(reason)
    if cause is not None:
        wanted &= pieces.cause == cause
    host = np.where(pieces.sync >= 0, pieces.sync, pieces.host)
    name = np.where(host >= 0, timeline.events.name[host], len(timeline.names))
    longest = _longest(timeline, name, np.where(wanted, cut, 0))
    recorder, time_s = _profiler(timeline, work.rank, low_ns, high_ns)
    return (f"profiler: {recorder}", time_s) if time_s > longest[1] else longest


def _profiler(timeline: Timeline, rank: int, low_ns: int, high_ns: int) -> tuple[str, float]:
    """Name the profiler's own work in [low, high) on a rank, and its seconds."""
    events = timeline.events
    of_recorder = np.fromiter((bool(OVERHEAD.search(n)) for n in timeline.names), bool)
    if not of_recorder.any():
        return "", 0.0
    rows = np.flatnonzero(of_recorder[events.name] & rank_rows(timeline, rank))
    cut = np.minimum(events.end_ns[rows], high_ns) - np.maximum(events.start_ns[rows], low_ns)
    return _longest(timeline, events.name[rows], cut)


def _longest(timeline: Timeline, name: Ints, length_ns: Ints) -> tuple[str, float]:
    keep = length_ns > 0
    if not keep.any():
        return "", 0.0
    total = np.bincount(name[keep], weights=length_ns[keep])
    most = int(total.argmax())
    return (*timeline.names, "")[most], float(total[most]) * 1e-9
