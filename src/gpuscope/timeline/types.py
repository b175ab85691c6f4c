"""What happened when: events on lanes and counters, predicted or measured, as columns.

One type for both: everything that explains a run takes a `Timeline` and cannot tell whether it
was simulated or recorded. Times are integer nanoseconds, so that sums and unions are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

LaneKind = Literal["host", "stream", "copy", "link"]

EVENT_KINDS: tuple[str, ...] = (
    "kernel", "communication", "memcpy", "memset",   # work of the device
    "operator", "launch", "sync", "module", "step", "python", "other",  # the host and marks
)  # fmt: skip
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


@dataclass(frozen=True, slots=True)
class Events:
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
        """End of each event."""
        return self.start_ns + self.duration_ns


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
    """One step's window on one rank: [start_ns, end_ns)."""

    start_ns: int
    end_ns: int
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Timeline:
    """Events, lanes, counters and step windows of one run, all ranks.

    Attributes:
        names: string table for event names.
        lanes: rows; event columns refer to them by index.
        events: the columns.
        counters: memory, power, utilisation over time.
        steps: step windows, in time order.
        kernels: one `gpuscope.cost.types.Kernel` per predicted device event (`Events.kernel`
            indexes it); empty for measured timelines.
        ops: one `gpuscope.program.types.Op` per operator (`Events.op` indexes it) where known.
        origin: "predicted" or "measured".
        notes: remarks on how far it can be trusted.
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
