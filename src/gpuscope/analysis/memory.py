"""Device memory over a step: the peak, what holds it, the curve, and whether it fits."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.types import MemoryStory
from gpuscope.analysis.window import OPERATOR, Window, rank_rows
from gpuscope.hardware.device import Device
from gpuscope.timeline.memory import Holder, MemoryTrace
from gpuscope.timeline.types import Counter, Ints, Timeline


def memory_story(
    timeline: Timeline,
    rank: int,
    window: Window,
    trace: MemoryTrace | None,
    device: Device | None,
) -> MemoryStory | None:
    """Return the memory of a step, from a simulated trace or from recorded counters.

    The capacity is the trace's, else what the device has for a program. None where the timeline
    has no memory counter and there is no trace.
    """
    if trace is not None:
        return _from_trace(timeline, rank, trace, device)
    counters = {counter.name: counter for counter in timeline.counters if len(counter.value)}
    allocated = counters.get("allocated")
    if allocated is None:
        return None
    return _from_counters(allocated, counters.get("reserved"), window, device)


def _from_trace(
    timeline: Timeline, rank: int, trace: MemoryTrace, device: Device | None
) -> MemoryStory:
    times = _operator_times(timeline, rank, trace.op)
    at = int(trace.allocated_bytes.argmax())
    capacity = trace.capacity_bytes
    missing = trace.excess_bytes if not trace.fits else 0
    fits: bool | None = trace.fits
    if capacity is None:
        capacity, fits, missing = _against(device, trace.peak_allocated_bytes)
    elif not trace.fits:
        missing = max(missing, trace.peak_allocated_bytes - capacity, 1)
    return MemoryStory(
        peak_bytes=trace.peak_allocated_bytes,
        reserved_bytes=trace.peak_reserved_bytes,
        peak_time_s=float(times[at]) * 1e-9,
        at_peak=dict(trace.at_peak),
        holders=tuple((_holder_label(holder), holder.nbytes) for holder in trace.holders),
        time_s=tuple((times * 1e-9).tolist()),
        allocated_bytes=tuple(trace.allocated_bytes.tolist()),
        reserved_curve_bytes=tuple(trace.reserved_bytes.tolist()),
        capacity_bytes=capacity,
        fits=fits,
        missing_bytes=missing,
    )


def _from_counters(
    allocated: Counter, reserved: Counter | None, window: Window, device: Device | None
) -> MemoryStory:
    """Read recorded counters; what held the memory is not known."""
    at = int(allocated.value.argmax())
    peak = int(allocated.value[at])
    capacity, fits, missing = _against(device, peak)
    curve = np.zeros(0, np.int64)
    if reserved is not None:
        index = np.searchsorted(reserved.time_ns, allocated.time_ns, side="right") - 1
        curve = reserved.value[np.maximum(index, 0)].astype(np.int64)
    times = (allocated.time_ns - window.start_ns) * 1e-9
    return MemoryStory(
        peak_bytes=peak,
        reserved_bytes=None if reserved is None else int(reserved.value.max()),
        peak_time_s=float(times[at]),
        at_peak={},
        holders=(),
        time_s=tuple(times.tolist()),
        allocated_bytes=tuple(allocated.value.astype(np.int64).tolist()),
        reserved_curve_bytes=tuple(curve.tolist()),
        capacity_bytes=capacity,
        fits=fits,
        missing_bytes=missing,
    )


def _against(device: Device | None, peak_bytes: int) -> tuple[int | None, bool | None, int]:
    """Capacity, whether a peak fits it, and what is missing."""
    if device is None:
        return None, None, 0
    missing = max(0, peak_bytes - device.memory_usable_bytes)
    return device.memory_usable_bytes, missing == 0, missing


def _operator_times(timeline: Timeline, rank: int, op: Ints) -> Ints:
    """When the host issues each operator, nanoseconds from its first one.

    Operators without an event of their own (inside a graph) get the time of the one before.
    """
    events = timeline.events
    rows = rank_rows(timeline, rank) & (events.kind == OPERATOR) & (events.op >= 0)
    if not rows.any():
        return np.zeros(len(op), np.int64)
    first = int(events.start_ns[rows].min())
    times = np.zeros(int(max(op.max(), events.op[rows].max())) + 2, np.int64)
    np.maximum.at(times, events.op[rows] + 1, events.start_ns[rows] - first)
    return np.maximum.accumulate(times[op + 1])


def _holder_label(holder: Holder) -> str:
    name = " ".join(part for part in (holder.module, holder.label) if part) or holder.category
    return f"{name} ×{holder.count}" if holder.count > 1 else name
