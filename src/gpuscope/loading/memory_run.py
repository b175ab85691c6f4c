"""A memory snapshot as a `Run` with memory only: its times are NaN, shown as "not available"."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from gpuscope.analysis.types import Analysis, Finding, MemoryStory
from gpuscope.analysis.wording import size
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
    snapshot = read_snapshot(path)
    memory = max(snapshot.devices, key=lambda each: each.peak_bytes)
    story = _story(memory, device)
    nan = math.nan
    return Run(
        name=Path(path).name, target=device.name if device else "an unknown device",
        device_id=device.id if device else "", origin="measured", step_time_s=nan,
        step_time_interval_s=(nan, nan), device_busy_s=nan, host_busy_s=None,
        peak_memory_bytes=memory.peak_bytes,
        reserved_memory_bytes=int(memory.reserved_bytes.max()), energy_j=None,
        fits=None, timeline=_timeline(memory, snapshot.path),
        analysis=_analysis(story, _findings(memory)),
        assumptions=_remarks(snapshot, memory),
        origins={"peak_memory_bytes": "measured", "reserved_memory_bytes": "measured"},
    )  # fmt: skip


def _story(memory: DeviceMemory, device: Device | None) -> MemoryStory:
    rows = _outline(memory.allocated_bytes)
    capacity = device.memory_usable_bytes if device else None
    return MemoryStory(
        peak_bytes=memory.peak_bytes, reserved_bytes=int(memory.reserved_bytes.max()),
        peak_time_s=memory.peak_time_ns * 1e-9, at_peak=memory.at_peak,
        holders=tuple(
            (f"{label} ×{count}" if count > 1 else label, nbytes)
            for label, nbytes, count in memory.holders
        ),
        time_s=tuple((memory.time_ns[rows] * 1e-9).tolist()),
        allocated_bytes=tuple(memory.allocated_bytes[rows].tolist()),
        reserved_curve_bytes=tuple(memory.reserved_bytes[rows].tolist()),
        capacity_bytes=capacity, fits=None if not memory.out_of_memory else False,
        missing_bytes=0,
    )  # fmt: skip


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
        names=(), lanes=(), events=Events(*(none for _ in range(8))), origin="measured",
        counters=tuple(
            Counter(name, "bytes", memory.time_ns[rows], values[rows].astype(np.float64))
            for name, values in curves
        ),
        sources=(Source(0, path, format="snapshot", with_memory=True),),
    )  # fmt: skip


def _analysis(story: MemoryStory, findings: tuple[Finding, ...]) -> Analysis:
    """An analysis that knows memory only."""
    return Analysis(
        step_s=0.0, time={}, classes=(), operators=(), kinds=(), phases=(), modules=(),
        roofline=None, tasks=(), memory=story, energy=None, utilisation=None, findings=findings,
    )  # fmt: skip


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
    left = "an unknown amount" if device_free is None else size(device_free)
    left_zh = "数量未知" if device_free is None else size(device_free)
    where = f" at {failure.frame}" if failure.frame else ""
    where_zh = f"（{failure.frame}）" if failure.frame else ""
    times = len(memory.out_of_memory)
    return Finding(
        kind="does_not_fit",
        title=f"The device ran out of memory: {size(failure.requested_bytes)} were missing{where}.",
        title_zh=f"显存不足：申请 {size(failure.requested_bytes)} 失败{where_zh}。",
        evidence=f"{times} request(s) failed. At the last one {size(failure.allocated_bytes)} were "
        f"in use, {size(free)} free inside the allocator's segments, {left} left on the device.",
        evidence_zh=f"共 {times} 次申请失败。最后一次时已使用 {size(failure.allocated_bytes)}，"
        f"分配器段内空闲 {size(free)}，设备剩余 {left_zh}。",
        max_gain_s=None,
        hint="Free or shrink what holds most at the peak (below)."
        + (" Much of it is free but fragmented: set PYTORCH_CUDA_ALLOC_CONF="
           "expandable_segments:True." if free > failure.requested_bytes else ""),
        hint_zh="释放或缩小峰值时占用最多的部分（见下）。"
        + ("空闲显存足够但已碎片化：设置 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True。"
           if free > failure.requested_bytes else ""),
    )  # fmt: skip


def _fragmented(memory: DeviceMemory) -> Finding:
    share = memory.fragmented_bytes / memory.end_reserved_bytes
    return Finding(
        kind="fragmented_memory",
        title=f"{share:.0%} of the reserved memory is free, but in segments that are in use.",
        title_zh=f"已预留显存的 {share:.0%} 空闲，但位于仍被使用的段中。",
        evidence=f"{size(memory.fragmented_bytes)} of {size(memory.end_reserved_bytes)}; the "
        f"largest free block holds {size(memory.largest_free_bytes)}. The device cannot get them "
        "back, and larger requests do not fit in.",
        evidence_zh=f"{size(memory.end_reserved_bytes)} 中的 {size(memory.fragmented_bytes)}；"
        f"最大空闲块 {size(memory.largest_free_bytes)}。设备无法收回，更大的申请也放不进去。",
        max_gain_s=None,
        hint="Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or allocate what lives long "
        "first.",
        hint_zh="设置 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True，或先分配长期存活的张量。",
    )


def _remarks(snapshot: Snapshot, memory: DeviceMemory) -> tuple[str, ...]:
    remarks = ["This is a memory snapshot: it holds no times of kernels."]
    if len(snapshot.devices) > 1:
        others = ", ".join(
            f"{d.device} ({size(d.peak_bytes)})" for d in snapshot.devices if d is not memory
        )
        remarks.append(f"Device {memory.device} is shown; others by peak: {others}.")
    if not memory.history:
        remarks.append(
            "No history was recorded: this is the memory at the moment of the snapshot, not the "
            "peak. Call torch.cuda.memory._record_memory_history() before the step."
        )
    elif not memory.timed:
        remarks.append("The history holds no times: its points are in order, a microsecond apart.")
    if memory.skipped:
        remarks.append(f"{memory.skipped} damaged entries were left out.")
    return tuple(remarks)


