"""Communication of one rank: which collectives, how large, how fast, how much of it in the open."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.collective_calls import Calls, communication_calls
from gpuscope.analysis.collective_names import UNEVEN, bus_factor, message_bytes
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.host_activity import HostActivity
from gpuscope.analysis.recorded_types import CollectiveWaiting, Communication, CommunicationSort
from gpuscope.analysis.window import COMMUNICATION, KERNEL, DeviceWork, rank_rows
from gpuscope.hardware.device import Device
from gpuscope.timeline.types import Collective, Ints, Timeline

Bools = npt.NDArray[np.bool_]

NS = 1e-9


def communication(
    timeline: Timeline,
    rank: int,
    device: Device | None = None,
    work: DeviceWork | None = None,
    host: HostActivity | None = None,
) -> Communication | None:
    """Return what a rank's communication kernels did over the whole timeline; None without any.

    One rank's durations include waiting for other ranks, so bandwidths are lower bounds: see
    `gpuscope.analysis.ranks` for several ranks. Equal ranks of a prediction wait for nobody.

    Args:
        timeline: predicted or measured.
        rank: whose.
        device, work, host: what it ran on, the work of its window and its host, of the only
            recorded rank: its collectives are then held against the time that they should take.
    """
    calls = communication_calls(timeline)
    if rank not in calls.ranks:
        return None
    rows = np.flatnonzero(calls.rank == calls.ranks.index(rank))
    own = rank_rows(timeline, rank)
    talks, computes = _union(timeline, own, COMMUNICATION), _union(timeline, own, KERNEL)
    hidden = computes.within(talks.start_ns, talks.end_ns)
    alone = _alone(calls, rows) or _equal(timeline, calls, rows, rank)
    expected, beyond, waiting = _held(timeline, rank, calls, None if alone else device, work, host)
    return Communication(
        rank=rank,
        count=len(rows),
        kernel_s=int(calls.duration_ns[rows].sum()) * NS,
        busy_s=talks.total_ns * NS,
        exposed_s=(talks.total_ns - int(hidden.sum())) * NS,
        sorts=sort_table(
            timeline,
            calls,
            rows,
            calls.duration_ns[rows] - beyond[rows],
            beyond[rows],
            1,
            not alone,
            expected_ns=expected[rows],
        ),
        waiting=waiting,
    )


def _held(
    timeline: Timeline,
    rank: int,
    calls: Calls,
    device: Device | None,
    work: DeviceWork | None,
    host: HostActivity | None,
) -> tuple[Ints, Ints, CollectiveWaiting | None]:
    """What each call should take (-1: not known), what it takes beyond that, and the rank's sum."""
    if device is None or timeline.recorded is None:
        return np.full(len(calls), -1, np.int64), np.zeros(len(calls), np.int64), None
    from gpuscope.analysis.expected_waiting import collective_waiting, expected_ns, waiting_ns

    expected, high = expected_ns(timeline, calls, device)
    beyond = waiting_ns(calls, expected, high)
    if work is None or host is None:
        return expected, beyond, None
    return expected, beyond, collective_waiting(timeline, rank, work, host, calls, expected, beyond)


def sort_table(
    timeline: Timeline,
    calls: Calls,
    rows: Ints,
    transfer_ns: Ints,
    waiting_ns: Ints | None,
    ranks: int,
    is_lower_bound: bool,
    sizes: Sequence[int | None] = (),
    expected_ns: Ints | None = None,
) -> tuple[CommunicationSort, ...]:
    """Return equal calls together, most time first.

    Args:
        timeline: where the calls come from.
        calls: all calls.
        rows: which of them to count.
        transfer_ns: transfer of each of `rows`.
        waiting_ns: waiting of each of `rows`; None if unknown.
        ranks: how many ranks the rows are of; counts and times are means over them.
        is_lower_bound: the transfers may hold waiting.
        sizes: ranks in each of `Calls.groups`, where more is known than the recording says.
        expected_ns: what each of `rows` should take, of one rank alone; -1 where not known, and
            then its waiting is not known either.
    """
    uneven = np.array([sort in UNEVEN for sort in calls.sorts] + [False])
    elements = np.where(uneven[calls.sort[rows]], -1, calls.elements[rows])
    dtypes, dtype = _dtypes(timeline, calls.collective[rows])
    key = np.stack((calls.sort[rows], calls.group[rows], dtype, elements))
    _, code = np.unique(key, axis=1, return_inverse=True)
    code = code.reshape(-1)
    found = []
    for i in range(int(code.max(initial=-1)) + 1):
        own = np.flatnonzero(code == i)
        same = rows[own]
        group = int(calls.group[same[0]])
        size = sizes[group] if sizes else calls.groups[group][2]
        name = calls.sorts[int(calls.sort[same[0]])]
        transfer_s = float(np.median(transfer_ns[own])) * NS
        due = None if expected_ns is None else int(expected_ns[own].max())
        known = waiting_ns is not None and due != -1
        moved_s = int(calls.duration_ns[same].min()) * NS if due not in (None, -1) else transfer_s
        nbytes, rate, bus = _rates(timeline, name, calls.collective[same], moved_s, size)
        found.append(
            CommunicationSort(
                name=name,
                group=calls.groups[group][0],
                group_size=size,
                dtype=dtypes[int(dtype[own[0]])],
                count=round(len(own) / ranks),
                message_bytes=nbytes,
                time_s=int(calls.duration_ns[same].sum()) * NS / ranks,
                transfer_s=transfer_s,
                waiting_s=int(waiting_ns[own].sum()) * NS / ranks
                if known and waiting_ns is not None
                else None,
                algorithm_bytes_per_s=rate,
                bus_bytes_per_s=bus,
                is_lower_bound=is_lower_bound and size != 1,
                expected_s=due * NS if due is not None and due >= 0 else None,
            )
        )
    return tuple(sorted(found, key=lambda sort: -sort.time_s))


def _rates(
    timeline: Timeline, name: str, collective: Ints, transfer_s: float, size: int | None
) -> tuple[int | None, float | None, float | None]:
    """Message bytes, algorithm and bus bandwidth; None where unknown."""
    nbytes = _message(timeline, name, collective)
    if nbytes is None or transfer_s <= 0:
        return nbytes, None, None
    rate, factor = nbytes / transfer_s, bus_factor(name, size)
    return nbytes, rate, None if factor is None else rate * factor


def _union(timeline: Timeline, own: Bools, kind: int) -> Cover:
    events = timeline.events
    rows = np.flatnonzero(own & (events.kind == kind))
    return Cover.of(events.start_ns[rows], events.end_ns[rows])


def _alone(calls: Calls, rows: Ints) -> bool:
    """Whether every call is of a group of one: nobody to wait for."""
    sizes = {calls.groups[code][2] for code in np.unique(calls.group[rows]).tolist()}
    return sizes == {1}


def _equal(timeline: Timeline, calls: Calls, rows: Ints, rank: int) -> bool:
    """Whether this rank of a prediction stands for all ranks that it talks to."""
    if timeline.origin != "predicted" or timeline.messages is None:
        return False
    own = set(timeline.stands_for.get(rank, ()))
    groups = [calls.groups[code][1] for code in np.unique(calls.group[rows]).tolist()]
    return not timeline.stands_for or all(members and own >= set(members) for members in groups)


def _dtypes(timeline: Timeline, collective: Ints) -> tuple[tuple[str, ...], Ints]:
    """Distinct dtypes, and each call's index; "" where unknown."""
    table: dict[str, int] = {"": 0}
    code = [table.setdefault(c.dtype, len(table)) for c in timeline.collectives] + [0]
    return tuple(table), np.array(code, np.int64)[collective]


def _message(timeline: Timeline, name: str, collective: Ints) -> int | None:
    """Mean message of these calls (they differ only where ranks give uneven sizes)."""
    index, count = np.unique(collective, return_counts=True)
    sizes = [
        message_bytes(name, timeline.collectives[i] if i >= 0 else Collective(""))
        for i in index.tolist()
    ]
    known = [(size, n) for size, n in zip(sizes, count.tolist(), strict=True) if size is not None]
    if not known:
        return None
    total = sum(size * n for size, n in known)
    return int(total // sum(n for _, n in known))
