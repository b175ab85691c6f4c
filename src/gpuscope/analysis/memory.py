"""Device memory over a step: the peak, what holds it, the curve, and whether it fits."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.columns import distinct
from gpuscope.analysis.types import MemoryStory
from gpuscope.document.text import Text, extracted
from gpuscope.hardware.device import Device
from gpuscope.program.types import TOGETHER
from gpuscope.timeline.memory import Holder, MemoryTrace, attach_memory
from gpuscope.timeline.types import Counter, Ints, Timeline


def memory_story(
    timeline: Timeline, trace: MemoryTrace | None, device: Device | None
) -> MemoryStory | None:
    """Return the memory of a step, from a simulated trace or from recorded counters.

    The curve's times count from its first point, the host's begin of the step. Recorded counters
    do not say what held the memory. The capacity is the trace's, else what the device has for a
    program. None where the timeline has no memory counter and there is no trace.
    """
    if trace is not None and not any(c.name == "allocated" for c in timeline.counters):
        timeline = attach_memory(timeline, trace)
    counters = {counter.name: counter for counter in timeline.counters if len(counter.value)}
    allocated = counters.get("allocated")
    if allocated is None:
        return None
    reserved = counters.get("reserved")
    time_ns = allocated.time_ns
    if reserved is not None:
        time_ns = distinct(np.concatenate((time_ns, reserved.time_ns)))
    curve = _at(allocated, time_ns)
    at = int(curve.argmax())
    peak = trace.peak_allocated_bytes if trace is not None else int(curve[at])
    capacity, missing = _capacity(trace, device, peak)
    return MemoryStory(
        peak_bytes=peak,
        reserved_bytes=None if reserved is None else int(reserved.value.max()),
        peak_time_s=float(time_ns[at] - time_ns[0]) * 1e-9,
        at_peak=dict(trace.at_peak) if trace else {},
        holders=tuple((_label(h), h.nbytes) for h in trace.holders) if trace else (),
        time_s=tuple(((time_ns - time_ns[0]) * 1e-9).tolist()),
        allocated_bytes=tuple(curve.tolist()),
        reserved_curve_bytes=() if reserved is None else tuple(_at(reserved, time_ns).tolist()),
        capacity_bytes=capacity,
        fits=None if capacity is None else missing == 0,
        missing_bytes=missing,
        failed_op=trace.failed[0] if trace and trace.failed else None,
        failed_for=_purpose(trace),
        failed_bytes=trace.failed[1].nbytes if trace and trace.failed else 0,
    )


def _purpose(trace: MemoryTrace | None) -> str:
    if trace is None or trace.failed is None:
        return ""
    storage = trace.failed[1]
    return _named(storage.module, storage.label) or storage.category


def _at(counter: Counter, time_ns: Ints) -> Ints:
    """Return a counter's value at these times; before its first point, its first value."""
    index = np.searchsorted(counter.time_ns, time_ns, side="right") - 1
    return counter.value[np.maximum(index, 0)].astype(np.int64)


def _capacity(
    trace: MemoryTrace | None, device: Device | None, peak_bytes: int
) -> tuple[int | None, int]:
    """Return the capacity and what is missing to it.

    A trace with a capacity knows more than its peak: fragmentation can make a request fail below
    it, and then what the allocator would have to reserve counts.
    """
    if trace is not None and trace.capacity_bytes is not None:
        over_peak = max(0, trace.peak_allocated_bytes - trace.capacity_bytes)
        missing = 0 if trace.fits else max(trace.excess_bytes, over_peak, 1)
        return trace.capacity_bytes, missing
    if device is None:
        return None, 0
    return device.memory_usable_bytes, max(0, peak_bytes - device.memory_usable_bytes)


def _label(holder: Holder) -> str:
    module = holder.module
    if holder.label == TOGETHER:  # of no module alone: what they hold tells most
        module = extracted(holder.category.replace("_", " "))
    name = _named(module, holder.label) or holder.category
    return Text("{name} ×{count}", name=name, count=holder.count) if holder.count > 1 else name


def _named(module: str, label: str) -> str:
    """A storage's module and label; a label in words keeps its translation."""
    if module and isinstance(label, Text):
        return Text("{module}: {content}", module=module, content=label)
    return " ".join(part for part in (module, label) if part) if module else label
