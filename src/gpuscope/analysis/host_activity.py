"""What the host of each rank did, as far as it explains what its device did or did not do."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.columns import OpColumns, is_any
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.host_line import HostThreads, host_threads
from gpuscope.analysis.waits import Waits, find_waits, launch_rows, synchronises
from gpuscope.analysis.window import LAUNCH, rank_rows
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS, Ints, Timeline

Bools = npt.NDArray[np.bool_]

UPLOAD = re.compile(r"HtoD|Host ?-> ?Device|copy_h2d|h2d", re.IGNORECASE)
"""Names of copies from host to device, and of lanes for them."""

_LOADER = re.compile(
    r"(dataloader|data_loader|prefetcher|datapipe|dali).*(__next__|_next_data|_try_get_data)",
    re.IGNORECASE,
)
_HOST_COLLECTIVE = re.compile(r"^gloo:|^mpi:|^c10d::(barrier|monitored_barrier_)$|TCPStore")

_WORKING = tuple(EVENT_KINDS.index(kind) for kind in ("operator", "launch", "python"))
_MARKS = (EVENT_KINDS.index("step"), EVENT_KINDS.index("module"))


@dataclass(frozen=True, slots=True)
class HostActivity:
    """What the host threads of one rank did, as far as it explains an idle device.

    Attributes:
        known: the timeline has host events for this rank.
        threads: the threads that feed the device, laid flat.
        launch: for each row of `Events` the row of its launch call, -1 if unknown.
        waits: the calls that waited for the device.
        is_sync, is_loader, is_collective: for each row of `Events`, whether it is a
            synchronisation, loads input, or is a collective of the host itself. All ranks share
            these columns.
        knows_loader: the loading of input is recorded for this rank.
        syncing: union of the synchronisations and waits.
        working: operators, launches and Python, waits excluded when measured by `work_ns`.
        active: operators and launches alone.
    """

    known: bool
    threads: HostThreads
    launch: Ints
    waits: Waits
    is_sync: Bools
    is_loader: Bools
    is_collective: Bools
    knows_loader: bool
    syncing: Cover
    working: Cover
    active: Cover

    def work_ns(self, start_ns: int, end_ns: int) -> int:
        """Return the nanoseconds in [start, end) in which the host worked and did not wait."""
        bounds = np.array([start_ns]), np.array([end_ns])
        both = Cover.of(
            np.concatenate((self.working.start_ns, self.syncing.start_ns)),
            np.concatenate((self.working.end_ns, self.syncing.end_ns)),
        )
        return int((both.within(*bounds) - self.syncing.within(*bounds))[0])


class Hosts:
    """What the host of each rank did, found when it is asked for and kept.

    Columns over all events are made once for all ranks.
    """

    def __init__(self, timeline: Timeline, ops: OpColumns) -> None:
        """Look at a timeline; `ops` are its operators as columns."""
        self._timeline = timeline
        self._known: dict[int, HostActivity] = {}
        self.launch = launch_rows(timeline)
        events = timeline.events
        self._parent = np.full(len(events), -1, np.int64)
        self._host = host_events(timeline)
        self._is_sync = synchronises(timeline)
        self._is_collective = self._host & _named(timeline, _HOST_COLLECTIVE)
        self._is_loader = self._host & _named(timeline, _LOADER) & ~self._is_sync
        if timeline.origin == "predicted":
            is_input = np.array([phase == "input" for phase in ops.phase.table])
            inputs = is_input[ops.phase.take(events.op)]
            self._is_loader |= self._host & inputs & ~self._is_sync
        self._is_upload = _named(timeline, UPLOAD)

    def __call__(self, rank: int) -> HostActivity:
        """Return what the host of a rank did."""
        if rank not in self._known:
            self._known[rank] = self._activity(rank)
        return self._known[rank]

    def _activity(self, rank: int) -> HostActivity:
        timeline, events = self._timeline, self._timeline.events
        waits = find_waits(timeline, rank, self.launch)
        # An upload's call first stages the data: work of the host, not a wait.
        blocking = (events.kind[waits.event] == LAUNCH) & ~self._is_upload[waits.target]
        self._is_sync[waits.event[blocking]] = True
        rows = np.flatnonzero(rank_rows(timeline, rank) & self._host)
        kind = events.kind[rows]

        def cover(wanted: Bools) -> Cover:
            own = rows[wanted]
            return Cover.of(events.start_ns[own], events.end_ns[own])

        return HostActivity(
            known=len(rows) > 0,
            threads=host_threads(timeline, rank, self._parent),
            launch=self.launch,
            waits=waits,
            is_sync=self._is_sync,
            is_loader=self._is_loader,
            is_collective=self._is_collective,
            knows_loader=bool(self._is_loader[rows].any()),
            syncing=cover(self._is_sync[rows]),
            working=cover(is_any(kind, _WORKING, len(EVENT_KINDS))),
            active=cover(is_any(kind, _WORKING[:2], len(EVENT_KINDS))),
        )


def host_activity(timeline: Timeline, rank: int, ops: OpColumns) -> HostActivity:
    """Return what the host of one rank did."""
    return Hosts(timeline, ops)(rank)


def host_events(timeline: Timeline) -> Bools:
    """Return which events lie on host threads and are no marks of steps or modules."""
    events = timeline.events
    if len(events) == 0:
        return np.zeros(0, bool)
    lanes = np.fromiter((lane.kind == "host" for lane in timeline.lanes), bool, len(timeline.lanes))
    marks = is_any(events.kind, _MARKS, len(EVENT_KINDS))
    found = (events.kind >= DEVICE_KINDS) & ~marks
    return np.asarray(found & lanes[events.lane], np.bool_)


def _named(timeline: Timeline, pattern: re.Pattern[str]) -> Bools:
    """Return which events have a name that the pattern finds."""
    if len(timeline.events) == 0:
        return np.zeros(0, bool)
    found = np.fromiter(
        (bool(pattern.search(name)) for name in timeline.names), bool, len(timeline.names)
    )
    return found[timeline.events.name]
