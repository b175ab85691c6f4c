"""What a rank's collectives take beyond the time that their bytes need: waiting, seen by one rank.

Only all ranks' recordings tell transfer from waiting for sure (`gpuscope.analysis.ranks`). Of one
rank alone each collective is held against the time that the model of `explain collective` expects
for its bytes, ranks and link, or against the shortest recorded one of its kind where that took
less. What is beyond both the expected time's interval and its value is waiting for other ranks.

Only groups inside one scale-up domain are judged: which fabric lies between the nodes, a recording
does not say. Neither are exchanges whose other ranks may send more (all-to-all, send and receive).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.collective_calls import Calls
from gpuscope.analysis.collective_names import UNEVEN, message_bytes
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.host_activity import HostActivity
from gpuscope.analysis.recorded_types import CollectiveWaiting
from gpuscope.analysis.window import COMMUNICATION, KERNEL, LAUNCH, DeviceWork, rank_rows
from gpuscope.cost.collective.model import alone_s
from gpuscope.cost.registry import Constants
from gpuscope.hardware import calibration_for
from gpuscope.hardware.device import Device
from gpuscope.timeline.intervals import subtraction
from gpuscope.timeline.types import Ints, Timeline

Bools = npt.NDArray[np.bool_]

NS = 1e-9

HOST_PARTS: tuple[str, ...] = ("working", "synchronising", "loading", "done")
"""What a host does while its device waits in a collective: Python, operators and launches; a
synchronisation; a data loader; nothing more of the recorded steps."""

_WORKING, _SYNC, _LOADING, _DONE = range(len(HOST_PARTS))

_OPERATIONS: Mapping[str, str] = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "broadcast": "broadcast",
    "reduce": "broadcast",
}
"""Sorts of collectives by what the cost model calls them."""

_MOSTLY, _SLOWER = 0.5, 3.0
"""A link is not the expected one where more than this share of the largest message's shortest time
is for its bytes, and that is so many times what they should take."""


def expected_ns(timeline: Timeline, calls: Calls, device: Device | None) -> tuple[Ints, Ints]:
    """Return the expected time of each call and the end of its interval; -1 where not known.

    Args:
        timeline: a recording.
        calls: its communication kernels.
        device: what it ran on; without one nothing is expected.
    """
    none = np.full(len(calls), -1, np.int64)
    if device is None or timeline.recorded is None or len(calls) == 0:
        return none, none.copy()
    constants = Constants(calibration_for(device))
    world = max((s.world_size or 0 for s in timeline.sources), default=0)
    key = np.stack((calls.collective, calls.sort, calls.group))
    kinds, code = np.unique(key, axis=1, return_inverse=True)
    times, sizes = np.full((2, kinds.shape[1]), -1, np.int64), np.zeros(kinds.shape[1], np.int64)
    for at, (collective, sort, group) in enumerate(kinds.T.tolist()):
        name = calls.sorts[sort]
        operation = _OPERATIONS.get(name) if name not in UNEVEN else None
        if collective < 0 or operation is None:
            continue
        nbytes = message_bytes(name, timeline.collectives[collective])
        members = _members(calls, group, world)
        if nbytes and members is not None:
            found = alone_s(device, constants, operation, nbytes, members, world)
            if found is not None:
                times[:, at] = [round(time_s / NS) for time_s in found]
                sizes[at] = nbytes
    code = code.reshape(-1)
    shortest = np.full(kinds.shape[1], np.iinfo(np.int64).max, np.int64)
    np.minimum.at(shortest, code, calls.duration_ns)
    times[:, _slower_link(kinds, sizes, times[0], shortest)] = -1
    expected, high = times[:, code]
    return np.minimum(expected, shortest[code]), high


def _slower_link(kinds: Ints, sizes: Ints, expected: Ints, shortest: Ints) -> Bools:
    """Which sorts of calls are of a group whose link is not the one that is expected.

    There time grows with the bytes, as it does where nobody waits, but much faster: the devices
    are tied by something slower than the catalogue's link (PCIe, another node).
    """
    out = np.zeros(len(sizes), bool)
    for group in np.unique(kinds[2]).tolist():
        own = np.flatnonzero((kinds[2] == group) & (expected >= 0))
        if len(own) < 2:
            continue
        small, large = own[sizes[own].argmin()], own[sizes[own].argmax()]
        grows = int(shortest[large] - shortest[small])
        expected_to = int(expected[large] - expected[small])
        mostly_bytes = grows > _MOSTLY * shortest[large] and sizes[large] > 2 * sizes[small]
        out[own] = mostly_bytes and grows > _SLOWER * max(expected_to, 1)
    return out


def _members(calls: Calls, group: int, world: int) -> tuple[int, ...] | range | None:
    """The ranks of a group; all where it is as large as the run; None where they are not known."""
    _, members, size = calls.groups[group]
    if members:
        return members
    return range(size) if size is not None and size > 1 and size == world else None


def waiting_ns(calls: Calls, expected: Ints, high: Ints) -> Ints:
    """Return what each call takes beyond its expected time, 0 within the interval or unknown."""
    length = calls.duration_ns
    return np.where((expected >= 0) & (length > high), length - expected, 0)


def collective_waiting(
    timeline: Timeline,
    rank: int,
    work: DeviceWork,
    host: HostActivity,
    calls: Calls,
    expected: Ints,
    beyond: Ints,
) -> CollectiveWaiting | None:
    """Return a rank's waiting in a window, per step; None where no collective can be judged.

    A rank waits first and moves data last, so its waiting is the begin of each kernel. Where one
    collective waits and another one of the rank moves data, nothing is lost.

    Args:
        timeline: a recording of one rank.
        rank: whose.
        work: its device work in the window.
        host: what its host did.
        calls: the communication kernels, with `expected` and `beyond` as `expected_ns` and
            `waiting_ns` give them.
    """
    own = np.flatnonzero(calls.rank == calls.ranks.index(rank)) if rank in calls.ranks else ()
    if len(own) == 0:
        return None
    low, end = work.window.bounds
    own = np.asarray(own)[(calls.start_ns[own] < end) & (calls.end_ns[own] > low)]
    judged = int((expected[own] >= 0).sum())
    if judged == 0:
        return None
    begin, moves = calls.start_ns[own], calls.start_ns[own] + beyond[own]
    busy = work.kind == KERNEL
    hidden = (
        np.concatenate((work.start_ns[busy], moves)),
        np.concatenate((work.end_ns[busy], calls.end_ns[own])),
    )
    waits = Cover.of(*subtraction((np.maximum(begin, low), np.minimum(moves, end)), hidden))
    talks = work.kind == COMMUNICATION
    alone = subtraction(
        (work.start_ns[talks], work.end_ns[talks]), (work.start_ns[busy], work.end_ns[busy])
    )
    seconds = NS / work.window.steps
    return CollectiveWaiting(
        exposed_s=waits.total_ns * seconds,
        communication_s=int((alone[1] - alone[0]).sum()) * seconds,
        judged=(judged, len(own)),
        host_s=_meanwhile(timeline, rank, host, waits, seconds),
    )


def _meanwhile(
    timeline: Timeline, rank: int, host: HostActivity, waits: Cover, seconds: float
) -> Mapping[str, float]:
    """What the host did in these stretches."""
    if not host.known or waits.total_ns == 0:
        return {}
    events, threads = timeline.events, host.threads
    pieces = threads.merged.cut(waits.start_ns, waits.end_ns)
    part = np.where(threads.nearest(pieces.event, host.is_sync) >= 0, _SYNC, _WORKING)
    part = np.where(threads.nearest(pieces.event, host.is_loader) >= 0, _LOADING, part)
    launches = events.end_ns[rank_rows(timeline, rank) & (events.kind == LAUNCH)]
    last = int(launches.max(initial=0))
    part = np.where((pieces.event < 0) & (pieces.start_ns >= last), _DONE, part)
    time = np.bincount(part, pieces.end_ns - pieces.start_ns, len(HOST_PARTS)) * seconds
    return {name: float(time[i]) for i, name in enumerate(HOST_PARTS) if time[i] > 0}
