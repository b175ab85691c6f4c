"""Counters that follow from a timeline's events, drawn beside them in a trace for Perfetto.

Launched work that has not begun, the rate of copies by direction, and what the cost models say of
the kernels that run: arithmetic and traffic per second. Each is constant between its points.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from gpuscope.cost.types import Kernel
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS, Counter, Ints, Timeline

_MEMCPY = EVENT_KINDS.index("memcpy")
_DIRECTIONS = ("HtoD", "DtoH", "DtoD", "PtoP")

Floats = npt.NDArray[np.float64]


def trace_counters(timeline: Timeline, rank: int) -> Iterator[Counter]:
    """Yield the counters of one rank that its events tell; those without any are left out.

    Args:
        timeline: predicted or measured.
        rank: whose.
    """
    events = timeline.events
    if not len(events):
        return
    own = np.array([lane.rank == rank for lane in timeline.lanes], bool)[events.lane]
    work = np.flatnonzero(own & (events.kind < DEVICE_KINDS))
    yield from _queue(timeline, own, work)
    yield from _copies(timeline, work)
    kernels = timeline.kernels
    flops, nbytes = (
        np.array([value(kernel) for kernel in kernels], np.float64) for value in (_flops, _bytes)
    )
    known = work[events.kernel[work] >= 0]
    for name, unit, amounts in (
        ("arithmetic of kernels", "FLOP/s", flops),
        ("device memory traffic of kernels", "B/s", nbytes),
    ):
        if len(known) and len(amounts):
            yield from _rate(timeline, name, unit, known, amounts[events.kernel[known]])


def _flops(kernel: object) -> float:
    return kernel.flops if isinstance(kernel, Kernel) else 0.0


def _bytes(kernel: object) -> float:
    return kernel.read_bytes + kernel.written_bytes if isinstance(kernel, Kernel) else 0.0


def _queue(timeline: Timeline, own: npt.NDArray[np.bool_], work: Ints) -> Iterator[Counter]:
    """Launches whose call has begun and whose first work has not."""
    events = timeline.events
    calls = np.flatnonzero(own & (events.kind >= DEVICE_KINDS) & (events.correlation >= 0))
    work = work[events.correlation[work] >= 0]
    if not len(calls) or not len(work):
        return
    order = work[np.argsort(events.start_ns[work], kind="stable")]
    number, first = np.unique(events.correlation[order], return_index=True)
    begin = events.start_ns[order[first]]
    at = np.minimum(np.searchsorted(number, events.correlation[calls]), len(number) - 1)
    tied = number[at] == events.correlation[calls]
    # Of several calls of one launch (runtime over driver) the first counts.
    ties, outer = np.unique(at[tied], return_index=True)
    start = np.minimum(events.start_ns[calls[tied][outer]], begin[ties])
    if len(ties):
        ones = np.ones(len(ties))
        yield _stepped("launch queue", "launches", start, begin[ties], ones)


def _copies(timeline: Timeline, work: Ints) -> Iterator[Counter]:
    recorded, events = timeline.recorded, timeline.events
    if recorded is None:
        return
    nbytes = np.full(len(events), -1, np.int64)
    nbytes[recorded.event] = recorded.nbytes
    copies = work[(events.kind[work] == _MEMCPY) & (nbytes[work] > 0)]
    for way in _DIRECTIONS:
        named = np.array([way in name for name in timeline.names], bool)
        rows = copies[named[events.name[copies]]]
        if len(rows):
            amounts = nbytes[rows].astype(np.float64)
            yield from _rate(timeline, f"copies {way}", "B/s", rows, amounts)


def _rate(
    timeline: Timeline, name: str, unit: str, rows: Ints, amounts: Floats
) -> Iterator[Counter]:
    """What events do per second, summed over those that run at once; nothing where it is 0."""
    events = timeline.events
    lasting = (events.duration_ns[rows] > 0) & (amounts > 0)
    rows, amounts = rows[lasting], amounts[lasting]
    if len(rows):
        rates = amounts / (events.duration_ns[rows] * 1e-9)
        yield _stepped(name, unit, events.start_ns[rows], events.end_ns[rows], rates)


def _stepped(name: str, unit: str, start_ns: Ints, end_ns: Ints, height: Floats) -> Counter:
    """The sum of what holds from each start to its end."""
    time = np.concatenate((start_ns, end_ns))
    change = np.concatenate((height, -height))
    order = np.argsort(time, kind="stable")
    time, value = time[order], np.cumsum(change[order])
    last = np.append(np.diff(time) > 0, True)
    value = np.where(np.abs(value) < 1e-6 * height.max(), 0.0, value)
    return Counter(name, unit, time[last], value[last])
