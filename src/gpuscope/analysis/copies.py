"""Memory copies by direction and kind of host memory: sizes, rates, and what hides them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.columns import KernelColumns
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.window import KERNEL, MEMCPY, DeviceWork, choose_window, device_work
from gpuscope.hardware.device import Device
from gpuscope.timeline.types import Ints, Timeline

Floats = npt.NDArray[np.float64]

DIRECTIONS: tuple[str, ...] = (
    "host to device",
    "device to host",
    "within the device",
    "between devices",
    "within the host",
    "unknown direction",
)
"""Where copies go, in the order of their codes."""

_H2D, _D2H, _D2D, _P2P, _H2H, _UNKNOWN = range(len(DIRECTIONS))

_MARKS: tuple[tuple[int, re.Pattern[str]], ...] = tuple(
    (code, re.compile(pattern, re.IGNORECASE))
    for code, pattern in (
        (_P2P, r"\bPtoP\b|peer"),
        (_H2D, r"\bHtoD\b|HostToDevice|(host|pinned|pageable) ?-> ?device|copy[_ ]h2d|\bM2D\b"),
        (_D2H, r"\bDtoH\b|DeviceToHost|device ?-> ?(host|pinned|pageable)|copy[_ ]d2h|\bD2M\b"),
        (_D2D, r"\bDtoD\b|DeviceToDevice|device ?-> ?device|\bAtoD\b|\bDtoA\b"),
        (_H2H, r"\bHtoH\b|HostToHost"),
    )
)

_PAGEABLE = re.compile(r"pageable", re.IGNORECASE)
_PINNED = re.compile(r"pinned", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CopyKind:
    """Copies of one direction and one kind of host memory, in one step.

    Attributes:
        direction: one of `DIRECTIONS`.
        memory: "pageable" or "pinned" host memory; "" where it is not recorded or not the host's.
        count: copies a step, at least 1.
        time_s: seconds a step, overlaps counted once.
        exposed_s: the part with no kernel beside it.
        total_bytes: bytes a step; None where a size is not recorded.
        median_bytes, largest_bytes: sizes of single copies; None as above.
        rate_bytes_per_s: total_bytes over the sum of their durations; None as above.
        link_bytes_per_s: what the device's host link can carry in this direction; None if unknown
            or not over that link.
        longest_ns: begin of the longest one, on the timeline's clock.
    """

    direction: str
    memory: str
    count: int
    time_s: float
    exposed_s: float
    total_bytes: int | None
    median_bytes: int | None
    largest_bytes: int | None
    rate_bytes_per_s: float | None
    link_bytes_per_s: float | None
    longest_ns: int

    @property
    def link_share(self) -> float | None:
        """Share of the link's rate that was reached; None if unknown."""
        if self.rate_bytes_per_s is None or not self.link_bytes_per_s:
            return None
        return self.rate_bytes_per_s / self.link_bytes_per_s


def copies(
    timeline: Timeline,
    rank: int,
    *,
    device: Device | None = None,
    work: DeviceWork | None = None,
    kernels: KernelColumns | None = None,
) -> tuple[CopyKind, ...]:
    """Return the copies of a rank by direction and memory, longest first; () where there are none.

    Args:
        timeline: predicted or measured.
        rank: whose device.
        device: for the rate of its link to the host.
        work, kernels: as `analyze` has them; found here where left out.
    """
    if work is None:
        window = choose_window(timeline, rank)
        if window is None:
            return ()
        work = device_work(timeline, rank, window)
    if not (work.kind == MEMCPY).any():
        return ()
    kernels = KernelColumns.of(timeline) if kernels is None else kernels
    rows, way, nbytes = each_copy(timeline, work, kernels)
    _, memory = _kinds(timeline)
    host_memory = memory[work.name[rows]]
    computing = work.kind == KERNEL
    hidden = Cover.of(work.start_ns[computing], work.end_ns[computing])
    found = []
    for code in np.unique(way * 3 + host_memory).tolist():
        own = (way * 3 + host_memory) == code
        found.append(_kind(timeline, work, rows[own], nbytes[own], divmod(code, 3), hidden, device))
    return tuple(sorted(found, key=lambda kind: -kind.time_s))


def pageable_ways(timeline: Timeline, work: DeviceWork) -> Ints:
    """Return of each device event, where it copies from or to pageable host memory, its direction
    as an index into `DIRECTIONS`; -1 of all others."""
    _, memory = _kinds(timeline)
    found = np.full(len(work), -1, np.int64)
    rows = np.flatnonzero((work.kind == MEMCPY) & (memory[work.name] == 2))
    found[rows] = _ways(timeline, work, rows)
    return found


def each_copy(
    timeline: Timeline, work: DeviceWork, kernels: KernelColumns
) -> tuple[Ints, Ints, Floats]:
    """Return the copies among the device work: their rows in it, direction and bytes.

    Directions index `DIRECTIONS`; bytes are NaN where they are not known.
    """
    rows = np.flatnonzero(work.kind == MEMCPY)
    if len(rows) == 0:
        return rows, rows.copy(), np.zeros(0)
    return rows, _ways(timeline, work, rows), _bytes(timeline, work, rows, kernels)


def _ways(timeline: Timeline, work: DeviceWork, rows: Ints) -> Ints:
    """The direction of copies by their names, else by their lanes'."""
    direction, _ = _kinds(timeline)
    lane = np.array([_direction(entry.name) for entry in timeline.lanes], np.int64)
    way = direction[work.name[rows]]
    return np.asarray(np.where(way == _UNKNOWN, lane[work.lane[rows]], way), np.int64)


def _kind(
    timeline: Timeline,
    work: DeviceWork,
    rows: Ints,
    nbytes: Floats,
    code: tuple[int, int],
    hidden: Cover,
    device: Device | None,
) -> CopyKind:
    """Sum the copies of one kind."""
    steps, (direction, memory) = work.window.steps, code
    union = Cover.of(work.start_ns[rows], work.end_ns[rows])
    exposed = union.total_ns - int(hidden.within(union.start_ns, union.end_ns).sum())
    # Rates and sizes are of whole copies, also where the window cuts one.
    event = work.event[rows]
    duration = timeline.events.duration_ns[event]
    known = not np.isnan(nbytes).any()
    taken_s = float(duration.sum()) * 1e-9
    over_link = direction in (_H2D, _D2H) and device is not None
    return CopyKind(
        direction=DIRECTIONS[direction],
        memory=("", "pinned", "pageable")[memory],
        count=max(1, round(len(rows) / steps)),
        time_s=union.total_ns * 1e-9 / steps,
        exposed_s=exposed * 1e-9 / steps,
        total_bytes=round(float(nbytes.sum()) / steps) if known else None,
        median_bytes=round(float(np.median(nbytes))) if known else None,
        largest_bytes=int(nbytes.max()) if known else None,
        rate_bytes_per_s=float(nbytes.sum()) / taken_s if known and taken_s > 0 else None,
        link_bytes_per_s=device.host_link_bandwidth_bytes_per_s if over_link and device else None,
        longest_ns=int(timeline.events.start_ns[event[np.argmax(duration)]]),
    )


def _bytes(timeline: Timeline, work: DeviceWork, rows: Ints, kernels: KernelColumns) -> Floats:
    """Bytes of each copy, as recorded, else as modelled (read and written once); NaN if unknown."""
    found = np.full(len(rows), np.nan)
    if len(kernels.kernels):
        kernel = work.kernel[rows]
        moved = kernels.least_bytes[np.maximum(kernel, 0)]
        found = np.where((kernel >= 0) & (moved > 0), moved, found)
    recorded = timeline.recorded
    if recorded is not None and len(recorded):
        at = np.minimum(np.searchsorted(recorded.event, work.event[rows]), len(recorded) - 1)
        nbytes = np.where(recorded.event[at] == work.event[rows], recorded.nbytes[at], -1)
        found = np.where(nbytes >= 0, nbytes, found)
    return np.asarray(found, np.float64)


def _kinds(timeline: Timeline) -> tuple[Ints, Ints]:
    """Direction and host memory (0 unknown, 1 pinned, 2 pageable) by name."""
    direction = np.array([_direction(name) for name in timeline.names], np.int64)
    memory = [
        2 if _PAGEABLE.search(name) else 1 if _PINNED.search(name) else 0 for name in timeline.names
    ]
    return direction, np.array(memory, np.int64)


def _direction(name: str) -> int:
    for code, pattern in _MARKS:
        if pattern.search(name):
            return code
    return _UNKNOWN
