"""The critical path: the one chain of work and waiting that a window's length is made of.

From the end of the window backwards: whatever was going on is asked what held it back last (see
`gpuscope.analysis.path_links`), then that, and so on to the window's begin. A kernel leads to the
kernel before it or to its launch call, a launch call to what its thread did before, a wait on the
host to the kernel that it waited for, a thread that took over to the one that handed over, and a
collective to the rank that came last. The segments touch and cover the window exactly.

What shortening a class of segments could save at most follows from two bounds. With its time gone
the path itself still takes the rest. And no other chain gets shorter than what is left of it: the
work of one stream is a chain, the work of the host is another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuscope.analysis import path_walk as raw
from gpuscope.analysis.columns import OpColumns, longest_of, present
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.host_activity import HostActivity, Hosts
from gpuscope.analysis.waits import LAUNCH_GAP_NS
from gpuscope.analysis.window import Window, rank_rows
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS, Ints, Timeline

Bools = npt.NDArray[np.bool_]

PATH_KINDS: tuple[str, ...] = (
    "kernel",
    "communication",
    "copy",
    "host operator",
    "host call",
    "python",
    "loading input",
    "launch latency",
    "synchronising",
    "handing over",
    "unexplained",
)
"""Kinds of segments, in the order of their codes. "host call" is a launch or another call of the
device's library; "python" is the host outside of operators, also where no stack is recorded;
"synchronising" is the return of a wait (what it waited for is on the path itself)."""

(
    KERNEL,
    COMMUNICATION,
    COPY,
    HOST_OPERATOR,
    HOST_CALL,
    PYTHON,
    LOADING,
    LATENCY,
    SYNCHRONISING,
    HAND_OVER,
    UNEXPLAINED,
) = range(len(PATH_KINDS))

HOST = (HOST_OPERATOR, HOST_CALL, PYTHON, LATENCY, HAND_OVER, SYNCHRONISING)
"""Kinds that `CriticalPath.gain_s` sums up as "host": what a faster host or fewer launches cut."""

MOST_NAMES = 100
"""Rows of `CriticalPath.shares`."""

_CALL = re.compile(r"^(cuda|hip|cu|mu|cnrt|acl)[A-Z]")
_DEVICE = (KERNEL, COMMUNICATION, COPY, COPY)


@dataclass(frozen=True, slots=True)
class PathShare:
    """One name on the path: seconds and segments a step, and where its longest segment begins."""

    kind: str
    name: str
    time_s: float
    count: int
    start_ns: int
    longest_s: float


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """What one window is made of. Segments touch: each ends where the next begins.

    Attributes:
        start_ns, end_ns: the window, on the timeline's clock.
        steps: steps in it; all seconds below are of one step.
        time_s: by kind of `PATH_KINDS`, largest first, without kinds that do not occur; adds up to
            the window divided by its steps.
        shares: by kind and name, largest first; the 100 largest.
        gain_s: by kind, and for "host" as a whole: the most that a step could get shorter if that
            class took no time.
        segment_start_ns, segment_kind, segment_name, segment_lane: the segments in time order:
            begin, index into `PATH_KINDS`, index into `names`, index into `Timeline.lanes` (-1 if
            none).
        names: what `segment_name` indexes.
        fused_gain_s: the most that it could get shorter with fewer kernels, not only shorter ones:
            then the host is done sooner, too, and only the device's other work is a bound.
    """

    start_ns: int
    end_ns: int
    steps: int
    time_s: Mapping[str, float]
    shares: tuple[PathShare, ...]
    gain_s: Mapping[str, float]
    segment_start_ns: tuple[int, ...]
    segment_kind: tuple[int, ...]
    segment_name: tuple[int, ...]
    segment_lane: tuple[int, ...]
    names: tuple[str, ...]
    fused_gain_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Segments:
    """Columns of segments in time order; `name` indexes `Timeline.names`, -1 for none."""

    start_ns: Ints
    end_ns: Ints
    kind: Ints
    name: Ints
    lane: Ints


def critical_path(
    timeline: Timeline,
    rank: int,
    window: Window,
    *,
    hosts: Hosts | None = None,
    last: Ints | None = None,
    most: int | None = None,
) -> CriticalPath | None:
    """Return the critical path of a window on a rank; None where the rank has no device work.

    Args:
        timeline: predicted or measured.
        rank: on which rank the path ends.
        window: what it covers.
        hosts: what the host of a rank did, where `analyze` has it at hand.
        last: for each row of `Events` the row of the last rank's call of the same collective, -1
            where there is none (see `last_arrivals`); without it the path stays on its rank.
    """
    events = timeline.events
    own = rank_rows(timeline, rank)
    if window.length_ns <= 0 or not (own & (events.kind < DEVICE_KINDS)).any():
        return None
    hosts = Hosts(timeline, OpColumns.of(timeline)) if hosts is None else hosts
    # A long recording's are large: the walker's lists, and the raw segments, are let go.
    path = raw.Walker(timeline, hosts, last).walk(rank, window).columns()
    segments = _merged(_named(timeline, hosts, *path))
    del path
    length = segments.end_ns - segments.start_ns
    total = np.bincount(segments.kind, weights=length, minlength=len(PATH_KINDS)).astype(float)
    per_ns = 1e-9 / window.steps
    gains, fused = _gains(timeline, own, window, hosts(rank), total, last)
    names, name = _table(timeline, segments.name)
    shares = _shares(segments, names, name, window.steps)
    drawn = replace(segments, name=name)
    if most is not None and len(name) > most:
        drawn, names = _thin(drawn, most, len(names)), (*names, "")
    return CriticalPath(
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        steps=window.steps,
        time_s={
            PATH_KINDS[i]: float(total[i]) * per_ns
            for i in np.argsort(-total, kind="stable").tolist()
            if total[i]
        },
        shares=shares,
        gain_s={kind: time * per_ns for kind, time in gains.items() if time > 0},
        segment_start_ns=tuple(drawn.start_ns.tolist()),
        segment_kind=tuple(drawn.kind.tolist()),
        segment_name=tuple(drawn.name.tolist()),
        segment_lane=tuple(drawn.lane.tolist()),
        names=names,
        fused_gain_s=fused * per_ns,
    )


def _thin(segments: _Segments, most: int, nameless: int) -> _Segments:
    """Join runs of short segments; a run's name is `nameless`, its lane -1."""
    length = segments.end_ns - segments.start_ns
    keep = np.zeros(len(length), bool)
    keep[np.argsort(-length, kind="stable")[: most // 2]] = True
    run = np.cumsum(keep | np.append(True, keep[:-1])) - 1
    first = np.flatnonzero(np.diff(run, prepend=-1))
    kinds = len(PATH_KINDS)
    weight = np.bincount(run * kinds + segments.kind, weights=length, minlength=len(first) * kinds)
    single = np.bincount(run) == 1
    return _Segments(
        start_ns=segments.start_ns[first],
        end_ns=np.append(segments.start_ns[first[1:]], segments.end_ns[-1]),
        kind=np.asarray(weight.reshape(-1, kinds).argmax(axis=1), np.int64),
        name=np.where(single, segments.name[first], nameless),
        lane=np.where(single, segments.lane[first], -1),
    )


def last_arrivals(event: Ints, collective: Ints, arrival_ns: Ints, count: int) -> Ints:
    """Return for each row of `Events` the call that came last to the same collective, else -1.

    Args:
        event: rows of the communication kernels of all ranks.
        collective: number of the collective that each is part of; -1 for none.
        arrival_ns: when each call's rank came, comparable within a collective.
        count: number of events.
    """
    found = np.full(count, -1, np.int64)
    rows = np.flatnonzero(collective >= 0)
    if len(rows) == 0:
        return found
    order = rows[np.lexsort((arrival_ns[rows], collective[rows]))]
    number = collective[order]
    ends = np.concatenate((np.flatnonzero(np.diff(number)), [len(order) - 1]))
    latest = event[order[ends]]
    found[event[order]] = latest[np.searchsorted(number[ends], number)]
    return found


def _named(
    timeline: Timeline, hosts: Hosts, start: Ints, end: Ints, code: Ints, ref: Ints
) -> _Segments:
    """Give the raw segments their kind, name and lane; host threads are cut by what they did."""
    events = timeline.events
    parts = []
    row = np.maximum(ref, 0)
    work = np.flatnonzero(code == raw.WORK)
    kind = np.array(_DEVICE)[events.kind[ref[work]]] if len(work) else work
    parts.append((start[work], end[work], kind, events.name[row[work]], events.lane[row[work]]))
    for raw_code, wanted in ((raw.LATENCY, LATENCY), (raw.RETURN, SYNCHRONISING)):
        rows = np.flatnonzero(code == raw_code)
        place = row[rows]
        # A call that is no synchronisation (it frees memory) goes on with work of its own.
        own_work = (raw_code == raw.RETURN) & (events.kind[place] == EVENT_KINDS.index("other"))
        kinds = np.where(own_work, HOST_CALL, wanted)
        parts.append((start[rows], end[rows], kinds, events.name[place], events.lane[place]))
    parts += _gaps(timeline, start, end, np.flatnonzero(code == raw.GAP), row)
    for raw_code, wanted in ((raw.HAND_OVER, HAND_OVER), (raw.NONE, UNEXPLAINED)):
        rows = np.flatnonzero(code == raw_code)
        kinds, none = np.full(len(rows), wanted, np.int64), np.full(len(rows), -1, np.int64)
        parts.append((start[rows], end[rows], kinds, none, ref[rows]))
    for lane in present(ref[code == raw.HOST]):
        rows = np.flatnonzero((code == raw.HOST) & (ref == lane))
        host = hosts(timeline.lanes[lane].rank)
        parts.append(_host_pieces(timeline, host, lane, start[rows], end[rows]))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    parts.clear()
    order = np.argsort(columns[0], kind="stable")
    return _Segments(*(columns.pop(0)[order] for _ in range(5)))


_Part = tuple[Ints, Ints, Ints, Ints, Ints]
"""start, end, kind, name, lane"""


def _gaps(timeline: Timeline, start: Ints, end: Ints, rows: Ints, row: Ints) -> list[_Part]:
    """Gaps between work that follows in a queue: the launch's share, then what is beyond it."""
    events = timeline.events
    middle = np.minimum(start[rows] + LAUNCH_GAP_NS, end[rows])
    name, lane = events.name[row[rows]], events.lane[row[rows]]
    beyond = middle < end[rows]
    first = (start[rows], middle, np.full(len(rows), LATENCY, np.int64), name, lane)
    rest = np.full(int(beyond.sum()), UNEXPLAINED, np.int64)
    return [first, (middle[beyond], end[rows][beyond], rest, name[beyond], lane[beyond])]


def _host_pieces(
    timeline: Timeline, host: HostActivity, lane: int, start: Ints, end: Ints
) -> _Part:
    """What a host thread did in these stretches."""
    events = timeline.events
    line = host.threads.lines.get(lane)
    if line is None:  # of a damaged recording: nothing on this thread nests
        count = len(start)
        kinds, none = np.full(count, PYTHON, np.int64), np.full(count, -1, np.int64)
        return start, end, kinds, none, np.full(count, lane, np.int64)
    pieces = line.cut(start, end)
    inside = np.maximum(pieces.event, 0)
    by_kind = np.full(len(EVENT_KINDS), PYTHON, np.int64)
    by_kind[EVENT_KINDS.index("operator")] = HOST_OPERATOR
    by_kind[EVENT_KINDS.index("launch")] = HOST_CALL
    by_kind[EVENT_KINDS.index("sync")] = HOST_CALL
    calls = np.fromiter(
        (bool(_CALL.search(name)) for name in timeline.names), bool, len(timeline.names)
    )
    kind = by_kind[events.kind[inside]]
    kind = np.where(calls[events.name[inside]] & (kind == PYTHON), HOST_CALL, kind)
    operator = host.threads.nearest(pieces.event, events.kind == EVENT_KINDS.index("operator"))
    within = (operator >= 0) & (kind == PYTHON)
    loader = host.threads.nearest(pieces.event, host.is_loader)
    kind = np.where(within, HOST_OPERATOR, kind)
    kind = np.where(pieces.event < 0, PYTHON, kind)
    kind = np.where(loader >= 0, LOADING, kind)
    event = np.where(within, operator, pieces.event)
    event = np.where(loader >= 0, loader, event)
    name = np.where(event >= 0, events.name[np.maximum(event, 0)], -1)
    return pieces.start_ns, pieces.end_ns, kind, name, np.full(len(kind), lane, np.int64)


def _merged(segments: _Segments) -> _Segments:
    """Join neighbours that are alike."""
    count = len(segments.kind)
    new = np.ones(count, bool)
    columns = (segments.kind, segments.name, segments.lane)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    first = np.flatnonzero(new)
    last = np.append(first[1:] - 1, count - 1)
    return _Segments(
        segments.start_ns[first],
        segments.end_ns[last],
        segments.kind[first],
        segments.name[first],
        segments.lane[first],
    )


def _table(timeline: Timeline, name: Ints) -> tuple[tuple[str, ...], Ints]:
    """The names that occur, and the column that indexes them."""
    seen = np.zeros(len(timeline.names) + 1, bool)
    seen[name + 1] = True
    used, index = np.flatnonzero(seen) - 1, np.cumsum(seen) - 1
    return tuple(timeline.names[i] if i >= 0 else "" for i in used.tolist()), index[name + 1]


def _shares(
    segments: _Segments, names: tuple[str, ...], name: Ints, steps: int
) -> tuple[PathShare, ...]:
    """Sum the segments by kind and name."""
    group = segments.kind * len(names) + name
    length = segments.end_ns - segments.start_ns
    size = len(PATH_KINDS) * len(names)
    time = np.bincount(group, weights=length, minlength=size)
    count = np.bincount(group, minlength=size)
    longest = longest_of(group, length, size)
    found = np.flatnonzero(count)
    largest = found[np.argsort(-time[found], kind="stable")[:MOST_NAMES]]
    return tuple(
        PathShare(
            kind=PATH_KINDS[i // len(names)],
            name=names[i % len(names)],
            time_s=float(time[i]) * 1e-9 / steps,
            count=max(1, round(int(count[i]) / steps)),
            start_ns=int(segments.start_ns[longest[i]]),
            longest_s=float(length[longest[i]]) * 1e-9,
        )
        for i in largest.tolist()
    )


def _gains(
    timeline: Timeline,
    own: Bools,
    window: Window,
    host: HostActivity,
    total: npt.NDArray[np.float64],
    last: Ints | None,
) -> tuple[dict[str, float], float]:
    """The most that each kind, and the host as a whole, could take off the window, in ns.

    Also what kernels could, were neither host nor path a bound.
    """
    begin = timeline.events.start_ns
    if last is not None:
        # What a collective waits for the last rank is no work of its own.
        begin = np.where(last >= 0, np.minimum(begin[last], timeline.events.end_ns), begin)
        begin = np.maximum(begin, timeline.events.start_ns)
    kinds = (KERNEL, COMMUNICATION, COPY)
    chains = _chains(timeline, own, window, begin)
    left = [_chains_without(chains, kind) for kind in kinds]
    whole = _chains_without(chains, -1)
    host_ns = _host_work_ns(timeline, host, window, np.zeros(len(own), bool))
    gains = {}
    for code, kind in enumerate(PATH_KINDS):
        stays = max(host_ns, left[code]) if code < len(left) else whole
        if code == LOADING:
            stays = max(whole, _host_work_ns(timeline, host, window, own & host.is_loader))
        gains[kind] = min(float(total[code]), window.length_ns - stays)
    on_path = float(total[list(HOST)].sum())
    gains["host"] = min(on_path, window.length_ns - whole)
    return gains, window.length_ns - left[KERNEL]


_Chain = tuple[Ints, Ints, Ints]
"""start, end, kind of the work of one device lane"""


def _chains(timeline: Timeline, own: Bools, window: Window, begin: Ints) -> list[_Chain]:
    """Device work in the window, lane by lane."""
    events = timeline.events
    rows = np.flatnonzero(own & (events.kind < DEVICE_KINDS))
    start = np.maximum(begin[rows], window.start_ns)
    end = np.minimum(events.end_ns[rows], window.end_ns)
    lane, kind = events.lane[rows], np.array(_DEVICE)[events.kind[rows]]
    of_lane = (lane == i for i in present(lane))
    return [(start[own], end[own], kind[own]) for own in of_lane]


def _chains_without(chains: Sequence[_Chain], kind: int) -> float:
    """Nanoseconds of the busiest device lane without work of one kind."""
    return max(
        (float(Cover.of(start[of != kind], end[of != kind]).total_ns) for start, end, of in chains),
        default=0.0,
    )


def _host_work_ns(timeline: Timeline, host: HostActivity, window: Window, gone: Bools) -> float:
    """Nanoseconds in which the host was in operators and calls, waits and `gone` left out."""
    events = timeline.events
    rows = np.flatnonzero(gone)
    without = Cover.of(
        np.concatenate((events.start_ns[rows], host.syncing.start_ns)),
        np.concatenate((events.end_ns[rows], host.syncing.end_ns)),
    )
    both = Cover.of(
        np.concatenate((host.active.start_ns, without.start_ns)),
        np.concatenate((host.active.end_ns, without.end_ns)),
    )
    bounds = np.array([window.start_ns]), np.array([window.end_ns])
    return float((both.within(*bounds) - without.within(*bounds))[0])
