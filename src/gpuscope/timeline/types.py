"""What happened when: events on lanes and counters, predicted or measured, as columns.

One type for both: everything that explains a run takes a `Timeline` and cannot tell whether it
was simulated or recorded. Times are integer nanoseconds, so that sums and unions are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpuscope.document.printable import counted, short_repr

LaneKind = Literal["host", "stream", "copy", "link"]

EVENT_KINDS: tuple[str, ...] = (
    "kernel",
    "communication",
    "memcpy",
    "memset",  # work of the device
    "operator",
    "launch",
    "sync",
    "module",
    "step",
    "python",
    "other",  # the host and marks
)
"""Meaning of the `kind` column: index into this tuple. The first four are device work."""

DEVICE_KINDS = 4
"""`kind < DEVICE_KINDS` is work of the device."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of the picture.

    Attributes:
        name: "host main", "stream 7", "copy H2D".
        kind: host thread, device stream, copy engine or link.
        rank: which process of a distributed run; 0 for a single one.
        device: index of the device within its host, -1 for host lanes.
    """

    name: str
    kind: LaneKind
    rank: int = 0
    device: int = 0


class _Kept:
    """Room for what is computed once of columns that do not change; no field of the dataclass."""

    __slots__ = ("_end_ns",)

    _end_ns: Ints


@dataclass(frozen=True, slots=True)
class Events(_Kept):
    """Events as columns of equal length, sorted by start (ties: lane order).

    Attributes:
        start_ns, duration_ns: int64 nanoseconds from the timeline's origin.
        name: index into `Timeline.names`.
        kind: index into `EVENT_KINDS`.
        lane: index into `Timeline.lanes`.
        op: index of the operator in the captured program, or -1.
        kernel: index into `Timeline.kernels`, or -1 (host events, measured events without one).
        correlation: ties a launch on the host to its device work; -1 if none.
    """

    start_ns: Ints
    duration_ns: Ints
    name: Ints
    kind: Ints
    lane: Ints
    op: Ints
    kernel: Ints
    correlation: Ints

    def __len__(self) -> int:
        """Number of events."""
        return len(self.start_ns)

    @property
    def end_ns(self) -> Ints:
        """End of each event; computed once, not to be written to."""
        try:
            return self._end_ns
        except AttributeError:
            end = self.start_ns + self.duration_ns
            end.flags.writeable = False
            object.__setattr__(self, "_end_ns", end)
            return end


@dataclass(frozen=True, slots=True)
class Counter:
    """A quantity over time, constant between its points.

    Attributes:
        name: "allocated", "reserved", "power".
        unit: "bytes", "W", "1" (ratio).
        time_ns: int64 nanoseconds, ascending.
        value: float64, same length.
    """

    name: str
    unit: str
    time_ns: Ints
    value: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Step:
    """One step's window on one rank: [start_ns, end_ns).

    Attributes:
        start_ns, end_ns: on the host's side.
        rank: whose.
        found: "" where it is marked; "optimizer", "kernels": a recording marks none, and it was
            found by these (see `gpuscope.analysis.found_steps`).
    """

    start_ns: int
    end_ns: int
    rank: int = 0
    found: Literal["", "optimizer", "kernels"] = ""


@dataclass(frozen=True, slots=True)
class Collective:
    """What a recording says of one sort of collective call; equal calls share one entry.

    Attributes:
        name: "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send",
            "recv", ...; "" where only the kernel's name is known.
        group: name of the process group; "" if unknown.
        group_size: ranks in the group; None if unknown.
        group_ranks: the global ranks of the group; () if unknown.
        dtype: torch's name without the prefix; "" if unknown.
        in_elements, out_elements: message sizes on one rank; None if unknown.
    """

    name: str
    group: str = ""
    group_size: int | None = None
    group_ranks: tuple[int, ...] = ()
    dtype: str = ""
    in_elements: int | None = None
    out_elements: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedDevice:
    """A device as the recording describes it; None or "" where it does not say."""

    index: int
    name: str
    memory_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None
    sm_count: int | None = None
    warp_size: int | None = None
    max_threads_per_sm: int | None = None
    registers_per_sm: int | None = None
    shared_bytes_per_sm: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Where the events of one rank come from, and what the file says of itself.

    Attributes:
        rank: as in `Lane.rank`.
        path: the file, as the user named it.
        format: "kineto", "nsys", "rocpd", "gpuscope", "snapshot" (of PyTorch's memory; no events).
        rank_known: the file itself names its rank (else it is a guess from its name or order).
        world_size, backend, host: of the distributed run; None or "" if unknown.
        groups: process group name -> global ranks (() where the members are not listed).
        devices: devices that the file describes.
        base_ns: absolute time (Unix epoch, or the tool's own clock) of the timeline's zero.
        schema: the format's own version, as text.
        with_shapes, with_stacks, with_memory: what was recorded besides times.
        cut_off: the file ends in the middle; what could be read is there.
        events_read, events_skipped: complete events read; malformed or unusable ones left out.
        events_negative: device events among the latter that end before they begin.
        counts: events read by category, in the file's own words ("kernel", "cpu_op", ...).
        messages: what the recorder itself wrote as warnings or errors.
    """

    rank: int
    path: str
    format: str = "kineto"
    rank_known: bool = False
    world_size: int | None = None
    backend: str = ""
    host: str = ""
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    devices: tuple[RecordedDevice, ...] = ()
    base_ns: int = 0
    schema: str = ""
    with_shapes: bool = False
    with_stacks: bool = False
    with_memory: bool = False
    cut_off: bool = False
    events_read: int = 0
    events_skipped: int = 0
    events_negative: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a recording says about device work besides its times.

    Columns of equal length, one row a device event (`kind < DEVICE_KINDS`), in the order of
    `Events`. Unknown is -1 (NaN for `occupancy`).

    Attributes:
        event: row in `Events`; ascending.
        grid, block: (n, 3) launch dimensions.
        registers: per thread.
        shared_bytes: shared memory of a block, static and dynamic.
        occupancy: estimated achieved occupancy, 0..1.
        nbytes: bytes of a copy or memset.
        stream: the device's stream id.
        graph: id of the CUDA graph it was launched from, where it came from one.
        launch: row in `Events` of the call that launched it.
        operator: row in `Events` of the innermost operator around that call.
        collective: index into `Timeline.collectives`.
        sequence: sequence number of the collective within its group.
    """

    event: Ints
    grid: Ints
    block: Ints
    registers: Ints
    shared_bytes: Ints
    occupancy: npt.NDArray[np.float64]
    nbytes: Ints
    stream: Ints
    graph: Ints
    launch: Ints
    operator: Ints
    collective: Ints
    sequence: Ints

    def __len__(self) -> int:
        """Number of device events."""
        return len(self.event)


@dataclass(frozen=True, slots=True)
class Messages:
    """Which collective call each communication event of a prediction is, as columns.

    What `Recorded` says of a recording's communication; events in ascending order.

    Attributes:
        event: row in `Events`.
        collective: index into `Timeline.collectives`.
        sequence: number of the call within its group, equal on all ranks that take part.
    """

    event: Ints
    collective: Ints
    sequence: Ints

    def __len__(self) -> int:
        """Number of communication events."""
        return len(self.event)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Events, lanes, counters and step windows of one run, all ranks.

    Attributes:
        names: string table for event names.
        lanes: rows; event columns refer to them by index.
        events: the columns.
        counters: memory, power, utilisation over time.
        steps: step windows, in time order.
        kernels: `gpuscope.cost.types.Kernel`s that `Events.kernel` indexes: what the cost models
            say of a device event. A reader leaves it empty; `analysis.modelled` joins it.
        ops: `gpuscope.program.types.Op`s that `Events.op` indexes, where known. A recording has
            one for each distinct call (name, shapes, dtypes, module, phase); its operator events
            and the device events that they launched refer to it. Outputs may be missing.
        origin: "predicted" or "measured".
        notes: remarks on how far it can be trusted.
        recorded: what a recording says about its device events; None for predictions.
        collectives: what `Recorded.collective` and `Messages.collective` index.
        sources: where each rank's events come from; () for predictions.
        messages: what a prediction says about its communication events; None for recordings.
        stands_for: of a prediction, the ranks that each rank drawn stands for, itself included:
            they do the same at the same time. Empty where every rank is drawn.
    """

    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    events: Events
    counters: tuple[Counter, ...] = ()
    steps: tuple[Step, ...] = ()
    kernels: tuple[object, ...] = ()
    ops: tuple[object, ...] = ()
    origin: Literal["predicted", "measured"] = "predicted"
    notes: tuple[str, ...] = field(default_factory=tuple)
    recorded: Recorded | None = None
    collectives: tuple[Collective, ...] = ()
    sources: tuple[Source, ...] = ()
    messages: Messages | None = None
    stands_for: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        events, lanes = counted(len(self.events), "event"), counted(len(self.lanes), "lane")
        return short_repr(self, "", self.origin, events, lanes, counted(len(self.steps), "step"))
