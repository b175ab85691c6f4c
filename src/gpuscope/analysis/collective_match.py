"""Which communication kernels of several ranks are one and the same collective.

Calls of one group are matched by their recorded sequence number where every rank has it, else by
their order. Without a recorded group all ranks are taken as one. A match is a claim that can be
checked: nobody leaves a collective before the last rank has come. Groups whose matches break that
rule are given up, so that a wrong guess gives no result instead of a wrong one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.clock_skew import Offset, clock_offsets, joint_offsets
from gpuscope.analysis.collective_calls import Calls, communication_calls
from gpuscope.analysis.collective_names import ROOTED, UNEVEN
from gpuscope.analysis.collective_pairs import match_pairs
from gpuscope.timeline.types import Ints, Timeline

RENDEZVOUS_SHARE = 0.9
"""Share of a group's matches that must have all ranks inside at one time."""

RENDEZVOUS_SLACK_NS = 20_000
"""Clocks of one host agree within a few us (8 V100s: 1-2 us); old traces count whole us."""

PACE_NS = 2_000
"""Ends of one collective agree within this; places whose spread differs by less are as good."""

FIT_READINGS = 256
"""Ends that are compared to judge a place, evenly over the list."""

MOST_SHIFT = 512
"""Calls that one rank's recording may begin earlier than another's."""


@dataclass(frozen=True, slots=True)
class Match:
    """Which calls belong together.

    Attributes:
        calls: the columns.
        id: number of the collective that each call is part of, ascending in time; -1 if no
            partner was found.
        count: collectives found on every recorded rank of their group (two or more).
        arrival_ns: when each matched call's rank came, on one clock for all calls of a collective.
            Where all ranks leave together, durations alone tell it and clocks do not matter.
        shift_ns: how far the clock of the call's rank runs ahead within its group.
        offsets: by rank, how far its clock runs ahead of the median rank's.
        complete: every member of every group is recorded, as far as groups are known.
        given_up: groups (by name) whose matches broke the rule.
        sizes: ranks in each of `Calls.groups`; where not recorded, those that were matched; None
            if unknown.
        equal: for each of `Calls.groups`, whether one rank stands for all its ranks (predictions):
            equal ranks come at one time.
    """

    calls: Calls
    id: Ints
    count: int
    arrival_ns: Ints
    shift_ns: Ints
    offsets: Mapping[int, Offset]
    complete: bool
    given_up: tuple[str, ...]
    sizes: tuple[int | None, ...]
    equal: tuple[bool, ...] = ()

    @property
    def alone(self) -> npt.NDArray[np.bool_]:
        """Calls of groups of one rank, or of ranks that are equal: they wait for nobody."""
        alone = np.array([*(size == 1 for size in self.sizes), False])
        alone[: len(self.equal)] |= np.array(self.equal, np.bool_)
        return np.asarray(alone[self.calls.group], np.bool_)


def match_collectives(timeline: Timeline) -> Match:
    """Match the collectives of a timeline's ranks."""
    calls = communication_calls(timeline)
    found = np.full(len(calls), -1, np.int64)
    shift = np.zeros(len(calls), np.int64)
    given_up, next_id, complete = [], 0, True
    readings: list[Mapping[int, Offset]] = []
    sizes = [size for _, _, size in calls.groups]
    present = {source.rank for source in timeline.sources} | set(calls.ranks)
    drawn = {each: rank for rank, ranks in timeline.stands_for.items() for each in ranks}
    equal = []
    for code, (name, members, size) in enumerate(calls.groups):
        rows = np.flatnonzero(calls.group == code)
        wanted = set(members) if members else (present if size is None else set())
        wanted = {drawn.get(rank, rank) for rank in wanted}
        equal.append(bool(drawn) and len(wanted) == 1)
        seen = {calls.ranks[r] for r in np.unique(calls.rank[rows]).tolist()}
        if not wanted and size is not None and len(seen) > size:
            given_up.append(name)  # one name for several groups whose members are unknown
            continue
        complete &= wanted <= seen and (size is None or bool(drawn) or len(seen) >= size)
        if len(seen) < 2:
            continue
        ids = _match_group(calls, rows, size or len(seen))
        offsets = _offsets(calls, rows, ids)
        by_rank = [o.offset_ns if (o := offsets.get(r)) else 0 for r in range(len(calls.ranks))]
        ahead = np.array(by_rank, np.int64)[calls.rank[rows]]
        if _breaks_rule(calls, rows, ids, ahead):
            given_up.append(name)
            continue
        found[rows[ids >= 0]] = ids[ids >= 0] + next_id
        next_id += int(ids.max(initial=-1)) + 1
        shift[rows] = ahead
        readings.append(offsets)
        sizes[code] = size if size is not None else len(seen)
    found, count = _in_time_order(found)
    return Match(
        calls=calls,
        id=found,
        count=count,
        arrival_ns=_arrivals(calls, found, shift),
        shift_ns=shift,
        offsets={calls.ranks[code]: o for code, o in joint_offsets(readings).items()},
        complete=complete,
        given_up=tuple(given_up),
        sizes=tuple(sizes),
        equal=tuple(equal),
    )


def together(calls: Calls, rows: Ints) -> npt.NDArray[np.bool_]:
    """Return which calls are of a sort that all ranks leave together."""
    rooted = np.array([sort in ROOTED for sort in calls.sorts] + [False])
    return np.asarray(~rooted[calls.sort[rows]], np.bool_)


def _match_group(calls: Calls, rows: Ints, size: int) -> Ints:
    """Number of the collective of each of a group's calls; -1 where there is no partner."""
    plain = [_token(name, size) for name in calls.sorts]
    names = np.unique(plain, return_inverse=True)[1].reshape(-1)[calls.sort[rows]]
    free = np.array([name in UNEVEN for name in plain])[calls.sort[rows]]
    elements = np.where(free, -1, calls.elements[rows])
    out = np.full(len(rows), -1, np.int64)
    single = np.array([name in ("send", "recv") for name in plain])[calls.sort[rows]]
    if single.any():
        is_send = np.array([name == "send" for name in plain])[calls.sort[rows]].astype(np.int64)
        own = rows[single]
        out[single] = match_pairs(
            calls.start_ns[own],
            calls.end_ns[own],
            calls.rank[own],
            is_send[single],
            calls.elements[own],
        )
    rest = np.flatnonzero(~single)
    if len(rest) == 0:
        return out
    rank, sequence = calls.rank[rows[rest]], calls.sequence[rows[rest]]
    if (sequence >= 0).all():
        ids = _numbered(np.stack((sequence, names[rest])), rank)
    else:
        ids = _by_order(calls.end_ns[rows[rest]], names[rest], elements[rest], rank)
    out[rest] = np.where(ids >= 0, ids + int(out.max(initial=-1)) + 1, -1)
    return out


def _token(name: str, size: int) -> str:
    """What a call must have in common with its partners: a send and its receive are one."""
    return "send_recv" if name in ("send", "recv") and size == 2 else name


def _numbered(key: Ints, rank: Ints) -> Ints:
    """Number calls by their key and by how often it came before on the same rank."""
    _, code = np.unique(key, axis=1, return_inverse=True)
    code = code.reshape(-1)
    nth = _occurrence(code * (int(rank.max(initial=0)) + 1) + rank)
    _, number = np.unique(np.stack((code, nth)), axis=1, return_inverse=True)
    return _shared(number.reshape(-1), rank)


def _occurrence(code: Ints) -> Ints:
    """How many equal codes came before each."""
    if len(code) == 0:
        return code
    order = np.argsort(code, kind="stable")
    ranked = code[order]
    first = np.concatenate(([True], ranked[1:] != ranked[:-1]))
    start = np.maximum.accumulate(np.where(first, np.arange(len(code)), 0))
    nth = np.empty(len(code), np.int64)
    nth[order] = np.arange(len(code)) - start
    return nth


def _shared(number: Ints, rank: Ints) -> Ints:
    """Keep numbers that all of these ranks have, renumbered without holes; -1 for the others.

    Where one rank's part is not recorded (before its recording began), the others may have waited
    for it: transfer and waiting cannot be told apart.
    """
    if len(number) == 0:
        return number
    pairs = np.unique(np.stack((number, rank)), axis=1)
    whole = np.bincount(pairs[0], minlength=int(number.max()) + 1) == len(np.unique(rank))
    renumbered = np.where(whole, np.cumsum(whole) - 1, -1)
    return np.asarray(renumbered[number], np.int64)


def _by_order(end_ns: Ints, name: Ints, elements: Ints, rank: Ints) -> Ints:
    """Match by order, each rank's list shifted to where it fits that of the longest."""
    lists = [np.flatnonzero(rank == r) for r in np.unique(rank).tolist()]
    longest = max(lists, key=len)
    position = np.full(len(name), -1, np.int64)
    for own in lists:
        shift = _best_shift(name, elements, end_ns, longest, own)
        if shift is None:  # different programs: equal calls by their own order
            return _numbered(np.stack((name, elements)), rank)
        position[own] = np.arange(len(own)) + shift
    return _shared(position - position.min(), rank)


def _best_shift(name: Ints, elements: Ints, end_ns: Ints, long: Ints, short: Ints) -> int | None:
    """How many calls of the longer list came before the shorter one's first; None if none fits.

    Where several fit, the ends decide: at the right place the clocks' difference hardly varies.
    Of places that are as good in this (equal calls at an equal pace) lists of equal length are laid
    side by side; of others the one with the smallest difference is taken.
    """
    if len(long) == len(short):
        fit = _fit(name, elements, end_ns, long, short)
        if fit is not None and fit[0] <= PACE_NS:
            return 0
    fits: list[tuple[float, float, int]] = []
    least = max(min(2, len(short)), len(short) // 2)  # a single difference has no spread
    first = max(-MOST_SHIFT, least - len(short))
    last = min(len(long) - len(short) + MOST_SHIFT, len(long) - least)
    for shift in range(first, last + 1):
        low, high = max(0, shift), min(len(long), shift + len(short))
        if high - low < least:
            continue
        fit = _fit(name, elements, end_ns, long[low:high], short[low - shift : high - shift])
        if fit is not None:
            fits.append((*fit, shift))
    if not fits:
        return None
    good = [fit for fit in fits if fit[0] <= 2 * min(fits)[0] + PACE_NS]
    if len(long) == len(short) and any(shift == 0 for _, _, shift in good):
        return 0
    return min((apart, shift) for _, apart, shift in good)[1]


def _fit(name: Ints, elements: Ints, end_ns: Ints, a: Ints, b: Ints) -> tuple[float, float] | None:
    """Spread and size of the difference between two lists' ends; None if they are not alike."""
    if (name[a[:8]] != name[b[:8]]).any():  # most wrong places show at once
        return None
    unlike = (elements[a] != elements[b]) & (elements[a] >= 0) & (elements[b] >= 0)
    if unlike.any() or (name[a] != name[b]).any():
        return None
    step = max(1, len(a) // FIT_READINGS)
    apart = end_ns[a[::step]] - end_ns[b[::step]]
    middle = float(np.median(apart))
    return float(np.median(np.abs(apart - middle))), abs(middle)


def _breaks_rule(calls: Calls, rows: Ints, ids: Ints, ahead: Ints) -> bool:
    """Whether too many of the matches have a rank that left before another came."""
    matched = ids >= 0
    if not matched.any():
        return False
    number = ids[matched]
    start, end = (
        column[rows[matched]] - ahead[matched] for column in (calls.start_ns, calls.end_ns)
    )
    latest = np.full(int(number.max()) + 1, np.iinfo(np.int64).min)
    earliest = np.full(len(latest), np.iinfo(np.int64).max)
    np.maximum.at(latest, number, start)
    np.minimum.at(earliest, number, end)
    rooted = np.zeros(len(latest), bool)
    rooted[number] = ~together(calls, rows[matched])
    good = (latest <= earliest + RENDEZVOUS_SLACK_NS) | rooted
    return bool(good.mean() < RENDEZVOUS_SHARE)


def _offsets(calls: Calls, rows: Ints, ids: Ints) -> Mapping[int, Offset]:
    """Clock offsets by rank code, from the ends of collectives that all ranks leave together."""
    keep = (ids >= 0) & together(calls, rows)
    return clock_offsets(calls.end_ns[rows[keep]], calls.rank[rows[keep]], ids[keep])


def _in_time_order(ids: Ints) -> tuple[Ints, int]:
    """Renumber the collectives by when their first rank entered (calls are sorted by start)."""
    rows = np.flatnonzero(ids >= 0)
    if len(rows) == 0:
        return ids, 0
    _, first, dense = np.unique(ids[rows], return_index=True, return_inverse=True)
    place = np.empty(len(first), np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(len(first))
    out = ids.copy()
    out[rows] = place[dense.reshape(-1)]
    return out, len(first)


def _arrivals(calls: Calls, ids: Ints, shift: Ints) -> Ints:
    """When each call's rank came: where ends agree, counted back from the collective's end."""
    arrival = calls.start_ns - shift
    rows = np.flatnonzero((ids >= 0) & together(calls, np.arange(len(calls))))
    if len(rows) == 0:
        return arrival
    order = np.lexsort((calls.end_ns[rows] - shift[rows], ids[rows]))
    number = ids[rows][order]
    starts = np.flatnonzero(np.concatenate(([True], number[1:] != number[:-1])))
    count = np.diff(np.concatenate((starts, [len(number)])))
    ends = (calls.end_ns - shift)[rows][order]
    middle = np.repeat(ends[starts + (count - 1) // 2], count)
    arrival[rows[order]] = middle - calls.duration_ns[rows[order]]
    return arrival
