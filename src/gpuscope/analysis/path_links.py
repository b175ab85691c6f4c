"""What held each thing back: the last of all that a kernel, a thread or a wait had to wait for.

Device work starts once its launch has reached the device, the work before it on its stream has
ended, and the streams that it was told to wait for have come so far. The last of these to happen
is its *link*. A host thread goes on with its program; it is held up by waits for the device (see
`gpuscope.analysis.waits`), and where it was silent while another thread worked, the program went
on there: the main thread hands over to the autograd thread in `.backward()`, and back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.columns import is_any, present
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.host_line import HostThreads
from gpuscope.analysis.waits import LAUNCH_GAP_NS, Waits, launched_ns, least_wait_ns
from gpuscope.analysis.window import OPERATOR, SYNC, rank_rows
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS, Events, Ints, Timeline

Bools = npt.NDArray[np.bool_]

NOTHING, QUEUE, STREAM, LAUNCHED = range(4)
"""Codes of `DeviceLinks.link`: nothing known, work before it on its lane, work on another lane,
its own launch."""

STREAM_SLACK_NS = 3_000
"""Work that starts later than this after its launch and its own stream allowed it may have waited
for another stream: queued kernels follow each other within 1-2 us."""

TOLD_LAG_NS = 100_000
"""Work that the host told to wait for another stream may start this much after that stream came so
far: NCCL kernels of recorded H200s begin 32-35 us later, beside a kernel that fills the device.
Without such a call on record only `LAUNCH_GAP_NS` is believed."""

SILENCE_NS = 20_000
"""A thread that pauses for less has not handed its work over to another."""

FILLED_SHARE = 0.10
"""Of a silence, the part that another thread works before it counts as having taken over: Python
between its operators is not recorded as work."""

_STREAM_WAIT = re.compile(r"^(cuda|hip|cu)StreamWait(Event|Value)|^Stream Wait Event$")


@dataclass(frozen=True, slots=True)
class DeviceLinks:
    """Device work of one rank by start, each with what held it back; equal columns.

    Attributes:
        row: row in `Events`.
        start_ns, end_ns: the work.
        link: `NOTHING`, `QUEUE`, `STREAM` or `LAUNCHED`.
        before: index of the work that it waited for (`QUEUE`, `STREAM`), else -1.
        call: row in `Events` of the launch call (`LAUNCHED`), else -1.
        given_ns: when that call had handed it over; not after `start_ns`.
    """

    row: Ints
    start_ns: Ints
    end_ns: Ints
    link: Ints
    before: Ints
    call: Ints
    given_ns: Ints


@dataclass(frozen=True, slots=True)
class Breaks:
    """Where the past of a host thread lies elsewhere, by time; equal columns.

    Attributes:
        time_ns: when the thread went on.
        done_ns: when what it waited for had ended; not after `time_ns`.
        work: row in `Events` of the device work that it waited for, -1 for a hand-over.
        lane: host lane that handed over to this thread, -1 for a wait.
        event: row of the call that waited, -1 for a hand-over.
    """

    time_ns: Ints
    done_ns: Ints
    work: Ints
    lane: Ints
    event: Ints


def device_links(timeline: Timeline, rank: int, launch: Ints) -> DeviceLinks:
    """Return the device work of a rank with what held it back.

    Args:
        timeline: any.
        rank: whose.
        launch: as `waits.launch_rows` returns it.
    """
    events = timeline.events
    row = np.flatnonzero(rank_rows(timeline, rank) & (events.kind < DEVICE_KINDS))
    start, end, lane = events.start_ns[row], events.end_ns[row], events.lane[row]
    known = launch[row] >= 0
    call_end, given = start.copy(), start.copy()
    given[known] = np.minimum(launched_ns(events, row[known], launch[row[known]]), start[known])
    call_end[known] = np.minimum(events.end_ns[launch[row[known]]], start[known])
    waited = (start - given)[known]
    latency = least_wait_ns(waited)
    before = _before_on_lane(lane, end)
    least = np.iinfo(np.int64).min // 2
    free = np.where(before >= 0, end[before], least)
    ready = np.where(known, given + latency, least)
    queued = (before >= 0) & (free >= ready)
    other = _last_ended(start, end)
    other_end = np.where(other >= 0, end[other], least)
    lag = _allowed_lag(timeline, rank, launch, row, before)
    stream = (other >= 0) & (lane[other] != lane)
    held = np.maximum(free, ready)
    stream &= (other_end > held) & (start - other_end <= lag)
    stream &= start - held > STREAM_SLACK_NS
    link = np.where(known, LAUNCHED, NOTHING)
    link = np.where(queued, QUEUE, link)
    link = np.where(stream, STREAM, link)
    chosen = np.where(stream, other, np.where(queued, before, -1))
    call = np.where(link == LAUNCHED, launch[row], -1)
    return DeviceLinks(row, start, end, link, chosen, call, call_end)


def thread_breaks(
    events: Events, threads: HostThreads, waits: Waits, loads: Bools
) -> Mapping[int, Breaks]:
    """Return for each host thread where it waited for the device or took over from another.

    Args:
        events: the timeline's.
        threads: the host threads of a rank.
        waits: its waits.
        loads: for each row of `Events`, whether it loads input: work, whatever its kind.
    """
    busy = {lane: _busy(events, lane, loads) for lane in threads.lanes}
    found = {}
    for lane in threads.lanes:
        own = events.lane[waits.event] == lane
        time, done, giver = _hand_overs(lane, busy)
        none = np.full(len(time), -1, np.int64)
        columns = (
            np.concatenate((waits.end_ns[own], time)),
            np.concatenate((waits.done_ns[own], done)),
            np.concatenate((waits.target[own], none)),
            np.concatenate((np.full(int(own.sum()), -1, np.int64), giver)),
            np.concatenate((waits.event[own], none)),
        )
        order = np.argsort(columns[0], kind="stable")
        found[lane] = Breaks(*(column[order] for column in columns))
    return found


def _before_on_lane(lane: Ints, end: Ints) -> Ints:
    """For each event the one before it on its lane that ends last; -1 for the first."""
    before = np.full(len(lane), -1, np.int64)
    for number in present(lane):
        rows = np.flatnonzero(lane == number)
        reach = np.maximum.accumulate(end[rows])
        longest = np.where(end[rows] == reach, np.arange(len(rows)), 0)
        before[rows[1:]] = rows[np.maximum.accumulate(longest)[:-1]]
    return before


def _last_ended(start: Ints, end: Ints) -> Ints:
    """For each event the last one that ended by its start; -1 if none. Never itself or a later."""
    order = np.argsort(end, kind="stable")
    at = np.searchsorted(end[order], start, side="right") - 1
    found = np.where(at >= 0, order[np.maximum(at, 0)], -1)
    return np.where(found < np.arange(len(start)), found, -1)


def _allowed_lag(timeline: Timeline, rank: int, launch: Ints, row: Ints, before: Ints) -> Ints:
    """How long after another stream's work each work may start if it waited for it; -1 for never.

    By whether the host asked some stream to wait between the launches of the work before it and of
    its own. Where no such call is recorded at all (predictions, short recordings) it may have.
    """
    events = timeline.events
    asks = np.fromiter(
        (bool(_STREAM_WAIT.search(name)) for name in timeline.names), bool, len(timeline.names)
    )
    calls = np.flatnonzero(rank_rows(timeline, rank) & asks[events.name]) if asks.any() else row[:0]
    if len(calls) == 0:
        return np.full(len(row), LAUNCH_GAP_NS, np.int64)
    time = np.sort(events.start_ns[calls], kind="stable")
    least = np.iinfo(np.int64).min
    known = launch[row] >= 0
    own = np.where(known, events.start_ns[launch[row]], events.start_ns[row])
    first = np.where((before >= 0) & known[before], own[before], least)
    first = np.where(first <= own, first, least)
    asked = np.searchsorted(time, own) > np.searchsorted(time, first)
    return np.where(~known, LAUNCH_GAP_NS, np.where(asked, TOLD_LAG_NS, -1))


def _busy(events: Events, lane: int, loads: Bools) -> Cover:
    """When a host thread was inside an operator, a launch, a wait or the loading of input."""
    active = (OPERATOR, SYNC, EVENT_KINDS.index("launch"))
    rows = (events.lane == lane) & (is_any(events.kind, active, len(EVENT_KINDS)) | loads)
    return Cover.of(events.start_ns[rows], events.end_ns[rows])


def _hand_overs(lane: int, busy: Mapping[int, Cover]) -> tuple[Ints, Ints, Ints]:
    """When a thread went on after a silence that another thread filled: when, since when, who.

    A silence counts where the other thread worked during `FILLED_SHARE` of it or more, or where it
    is the thread's first work at all.
    """
    own = busy[lane]
    count = len(own.start_ns)
    least = np.iinfo(np.int64).min // 2
    silent = np.concatenate(([least], own.end_ns[:-1]))[:count]
    go_on = own.start_ns
    best, giver = np.full(count, least, np.int64), np.full(count, -1, np.int64)
    for other, cover in busy.items():
        if other == lane or len(cover.start_ns) == 0:
            continue
        at = np.searchsorted(cover.start_ns, go_on, side="left") - 1
        ended = np.where(at >= 0, np.minimum(cover.end_ns[np.maximum(at, 0)], go_on), least)
        begin = np.maximum(silent, least)
        filled = cover.within(begin, go_on) >= FILLED_SHARE * (go_on - begin)
        plausible = (ended > silent) & (
            (silent == least) | (filled & (go_on - silent > SILENCE_NS))
        )
        better = plausible & (ended > best)
        best, giver = np.where(better, ended, best), np.where(better, other, giver)
    rows = np.flatnonzero(giver >= 0)
    return go_on[rows], best[rows], giver[rows]
