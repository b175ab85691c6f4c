"""A memory snapshot as a `Run` with memory only: its times are NaN, shown as "not available"."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from gpuscope.analysis.types import Analysis, Finding, MemoryStory
from gpuscope.document.printable import harmless, one_line
from gpuscope.document.quantities import Bytes, Percent
from gpuscope.document.text import Text, joined, plural, sentences
from gpuscope.hardware.device import Device
from gpuscope.run import Run
from gpuscope.timeline.snapshot import DeviceMemory, Snapshot, read_snapshot
from gpuscope.timeline.types import Counter, Events, Ints, Source, Timeline

CURVE_POINTS = 4000
"""Most points of a curve that is drawn; of longer ones the highest of each stretch are kept."""

FRAGMENTED = 0.1
"""Share of the reserved memory from which fragmentation is worth a word."""


def memory_run(path: str | Path, *, device: Device | None = None) -> Run:
    """Read a snapshot and say what it holds. Of several devices the fullest is shown.

    Args:
        path: the pickle.
        device: what it was recorded on, for its capacity; None: unknown.

    Raises:
        InputFileError: see `read_snapshot`.
    """
    return run_of(read_snapshot(path), path, device=device)


def run_of(snapshot: Snapshot, path: str | Path, *, device: Device | None = None) -> Run:
    """What a snapshot holds, as a run; arguments as of `memory_run`."""
    memory = max(snapshot.devices, key=lambda each: each.peak_bytes)
    story = _story(memory, device)
    nan = math.nan
    return Run(
        name=one_line(Path(path).name),
        target=device.name if device else Text("an unknown device"),
        device_id=device.id if device else "",
        origin="measured",
        step_time_s=nan,
        step_time_interval_s=(nan, nan),
        device_busy_s=nan,
        host_busy_s=None,
        peak_memory_bytes=memory.peak_bytes,
        reserved_memory_bytes=int(memory.reserved_bytes.max()),
        energy_j=None,
        fits=None,
        timeline=_timeline(memory, one_line(snapshot.path)),
        analysis=_analysis(story, _findings(memory)),
        assumptions=_remarks(snapshot, memory),
        origins={"peak_memory_bytes": "measured", "reserved_memory_bytes": "measured"},
        memory_blocks=memory.blocks,
    )


def _story(memory: DeviceMemory, device: Device | None) -> MemoryStory:
    rows = _outline(memory.allocated_bytes)
    capacity = device.memory_usable_bytes if device else None
    return MemoryStory(
        peak_bytes=memory.peak_bytes,
        reserved_bytes=int(memory.reserved_bytes.max()),
        peak_time_s=memory.peak_time_ns * 1e-9,
        at_peak=memory.at_peak,
        holders=tuple(
            (f"{label} ×{count}" if count > 1 else label, nbytes)
            for label, nbytes, count in harmless(memory.holders)
        ),
        time_s=tuple((memory.time_ns[rows] * 1e-9).tolist()),
        allocated_bytes=tuple(memory.allocated_bytes[rows].tolist()),
        reserved_curve_bytes=tuple(memory.reserved_bytes[rows].tolist()),
        capacity_bytes=capacity,
        fits=None if not memory.out_of_memory else False,
        missing_bytes=0,
    )


def _outline(values: Ints) -> Ints:
    """Rows that keep a long curve's shape: first, last and highest of each equal stretch."""
    if len(values) <= CURVE_POINTS:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), CURVE_POINTS // 3 + 1).astype(np.int64)
    kept: list[int] = []
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        kept += [begin, begin + int(values[begin:end].argmax()), end - 1]
    return np.unique(np.array(kept, np.int64))


def _timeline(memory: DeviceMemory, path: str) -> Timeline:
    rows = _outline(memory.allocated_bytes)
    none = np.zeros(0, np.int64)
    curves = (("allocated", memory.allocated_bytes), ("reserved", memory.reserved_bytes))
    return Timeline(
        names=(),
        lanes=(),
        events=Events(*(none for _ in range(8))),
        origin="measured",
        counters=tuple(
            Counter(name, "bytes", memory.time_ns[rows], values[rows].astype(np.float64))
            for name, values in curves
        ),
        sources=(Source(0, path, format="snapshot", with_memory=True),),
    )


def _analysis(story: MemoryStory, findings: tuple[Finding, ...]) -> Analysis:
    """An analysis that knows memory only."""
    return Analysis(
        step_s=0.0,
        time={},
        classes=(),
        operators=(),
        kinds=(),
        phases=(),
        modules=(),
        roofline=None,
        tasks=(),
        memory=story,
        energy=None,
        utilisation=None,
        findings=findings,
    )


def _findings(memory: DeviceMemory) -> tuple[Finding, ...]:
    found = []
    if memory.out_of_memory:
        found.append(_out_of_memory(memory))
    if memory.end_reserved_bytes and (
        memory.fragmented_bytes / memory.end_reserved_bytes >= FRAGMENTED
    ):
        found.append(_fragmented(memory))
    return tuple(found)


def _out_of_memory(memory: DeviceMemory) -> Finding:
    failure = memory.out_of_memory[-1]
    free = failure.reserved_bytes - failure.allocated_bytes
    device_free = failure.device_free_bytes
    left = Text("an unknown amount") if device_free is None else Bytes(device_free)
    where = Text(" at {frame}", frame=failure.frame) if failure.frame else Text("")
    times = len(memory.out_of_memory)
    return Finding(
        kind="does_not_fit",
        title=Text(
            "The device ran out of memory: {requested} were missing{where}.",
            requested=Bytes(failure.requested_bytes),
            where=where,
        ),
        evidence=plural(
            "{count} request failed. At the last one {allocated} were in use, {free} free "
            "inside the allocator's segments, {left} left on the device.",
            "{count} requests failed. At the last one {allocated} were in use, {free} free "
            "inside the allocator's segments, {left} left on the device.",
            times,
            allocated=Bytes(failure.allocated_bytes),
            free=Bytes(free),
            left=left,
        ),
        max_gain_s=None,
        hint=sentences(
            Text("Free or shrink what holds most at the peak (below)."),
            Text(
                "Much of it is free but fragmented: set PYTORCH_CUDA_ALLOC_CONF="
                "expandable_segments:True."
            )
            if free > failure.requested_bytes
            else "",
        ),
    )


def _fragmented(memory: DeviceMemory) -> Finding:
    share = memory.fragmented_bytes / memory.end_reserved_bytes
    return Finding(
        kind="fragmented_memory",
        title=Text(
            "{share} of the reserved memory is free, but in segments that are in use.",
            share=Percent(share),
        ),
        evidence=Text(
            "{fragmented} of {end_reserved}; the largest free block holds {largest_free}. The "
            "device cannot get them back, and larger requests do not fit in.",
            fragmented=Bytes(memory.fragmented_bytes),
            end_reserved=Bytes(memory.end_reserved_bytes),
            largest_free=Bytes(memory.largest_free_bytes),
        ),
        max_gain_s=None,
        hint=Text(
            "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or allocate what lives long "
            "first."
        ),
    )


def _remarks(snapshot: Snapshot, memory: DeviceMemory) -> tuple[str, ...]:
    remarks = [Text("This is a memory snapshot: it holds no times of kernels.")]
    if len(snapshot.devices) > 1:
        others = joined(
            Text("{device} ({peak})", device=d.device, peak=Bytes(d.peak_bytes))
            for d in snapshot.devices
            if d is not memory
        )
        remarks.append(
            Text(
                "Device {device} is shown; others by peak: {others}.",
                device=memory.device,
                others=others,
            )
        )
    if not memory.history:
        remarks.append(
            Text(
                "No history was recorded: this is the memory at the moment of the snapshot, not "
                "the peak. Call torch.cuda.memory._record_memory_history() before the step."
            )
        )
    elif not memory.timed:
        remarks.append(
            Text("The history holds no times: its points are in order, a microsecond apart.")
        )
    if memory.skipped:
        remarks.append(Text("{skipped} damaged entries were left out.", skipped=memory.skipped))
    return tuple(remarks)
