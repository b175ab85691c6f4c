"""From a profiler's trace to the kernels of each timed call. Pure; knows no torch.

A call sits in a named range on the host; a kernel belongs to the range inside which its launch
was made (joined by the correlation id), so what is launched between two calls is never counted.
"""

from __future__ import annotations

import bisect
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gpuscope.measurement.bench.types import KernelTime, p90

MARK = "@"
"""The names of ranges begin with it."""

GROUP_ABOVE = 24
"""A call with more kernels than this is summed up as one entry a distinct kernel."""

TIMED = ("sum", "span", "copies", "kernels")
"""Time of a call: of its kernels, copies and memsets together; from the first start to the last
end (work on several streams); of the copies alone; of all but the copies."""

_RUNTIME = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime"})
_DEVICE = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Trace(msgspec.Struct, gc=False):
    events: list[_Event] = msgspec.field(name="traceEvents")


class _LaunchArguments(msgspec.Struct, gc=False):
    correlation: int = -1


class _KernelArguments(msgspec.Struct, gc=False):
    correlation: int = -1
    grid: list[int] = []
    block: list[int] = []
    registers: int | None = msgspec.field(name="registers per thread", default=None)
    shared: int | None = msgspec.field(name="shared memory", default=None)
    occupancy: float | None = msgspec.field(name="est. achieved occupancy %", default=None)


_NO_JSON = re.compile(rb":\s*-?(?:nan|inf|NaN|Infinity)\b")

_LAUNCH = msgspec.json.Decoder(_LaunchArguments, strict=False)
_KERNEL = msgspec.json.Decoder(_KernelArguments, strict=False)
_TRACE = msgspec.json.Decoder(_Trace, strict=False)


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """One kernel, copy or memset.

    Attributes:
        name, category: as `KernelTime`.
        start_s, duration_s: on the trace's clock.
        arguments: what the profiler adds.
    """

    name: str
    category: str
    start_s: float
    duration_s: float
    arguments: _KernelArguments = field(default_factory=_KernelArguments)


def events_by_range(trace: bytes) -> dict[str, list[DeviceEvent]]:
    """Return the device events of each named range, in the order of their launches.

    Args:
        trace: a Chrome trace of the PyTorch profiler. Named ranges must not overlap.

    Raises:
        msgspec.MsgspecError: not such a trace.
    """
    launches: dict[int, float] = {}
    ranges: list[tuple[float, float, str]] = []
    device: list[tuple[int, DeviceEvent]] = []
    for event in _decoded(trace).events:
        if event.ph != "X":
            continue
        if event.cat in _RUNTIME:
            correlation = _LAUNCH.decode(event.args).correlation
            # The runtime call and the driver call inside it share an id: the earlier one counts.
            launches[correlation] = min(event.ts, launches.get(correlation, event.ts))
        elif event.cat == "user_annotation" and event.name.startswith(MARK):
            ranges.append((event.ts, event.ts + event.dur, event.name))
        elif event.cat in _DEVICE:
            given = _KERNEL.decode(event.args)
            made = DeviceEvent(
                event.name, _DEVICE[event.cat], event.ts * 1e-6, event.dur * 1e-6, given
            )
            device.append((given.correlation, made))
    return _joined(ranges, launches, device)


def _decoded(trace: bytes) -> _Trace:
    try:
        return _TRACE.decode(trace)
    except msgspec.DecodeError:
        # Rates of very short copies can be written as "inf" or "nan", which is no JSON.
        return _TRACE.decode(_NO_JSON.sub(b": null", trace))


def _joined(
    ranges: list[tuple[float, float, str]],
    launches: Mapping[int, float],
    device: Sequence[tuple[int, DeviceEvent]],
) -> dict[str, list[DeviceEvent]]:
    ranges.sort()
    starts = [start for start, _, _ in ranges]
    found: dict[str, list[tuple[float, DeviceEvent]]] = {name: [] for _, _, name in ranges}
    for correlation, made in device:
        launched = launches.get(correlation)
        if launched is None:
            continue
        at = bisect.bisect_right(starts, launched) - 1
        if at >= 0 and launched <= ranges[at][1]:
            found[ranges[at][2]].append((launched, made))
    return {n: [e for _, e in sorted(v, key=lambda pair: pair[0])] for n, v in found.items()}


@dataclass(frozen=True, slots=True)
class CallTimes:
    """What the repetitions of one call took.

    Attributes:
        seconds: device time of each repetition.
        kernels: in launch order.
    """

    seconds: tuple[float, ...]
    kernels: tuple[KernelTime, ...]


def summarise(repetitions: Sequence[Sequence[DeviceEvent]], timed: str = "sum") -> CallTimes | None:
    """Return the times of a call, or None if it ran nothing on the device.

    Repetitions whose kernels differ from the most common sequence (a library that tries something
    out, once) are dropped.

    Args:
        repetitions: device events of each, in launch order.
        timed: one of `TIMED`.
    """
    if not repetitions:
        return None
    signatures = Counter(tuple(e.name for e in repetition) for repetition in repetitions)
    signature, _ = signatures.most_common(1)[0]
    if not signature:
        return None
    kept = [list(r) for r in repetitions if tuple(e.name for e in r) == signature]
    seconds = tuple(_seconds(r, timed) for r in kept)
    if len(signature) > GROUP_ABOVE:
        return CallTimes(seconds, _grouped(kept))
    kernels = []
    for k in range(len(signature)):
        gaps = [r[k].start_s - r[k - 1].start_s - r[k - 1].duration_s for r in kept] if k else []
        kernels.append(_kernel([r[k] for r in kept], gaps, 1))
    return CallTimes(seconds, tuple(kernels))


def _seconds(events: Sequence[DeviceEvent], timed: str) -> float:
    if timed == "span":
        return max(e.start_s + e.duration_s for e in events) - min(e.start_s for e in events)
    if timed == "sum":
        return sum(e.duration_s for e in events)
    copies = timed == "copies"
    return sum(e.duration_s for e in events if (e.category == "memcpy") == copies)


def _grouped(kept: list[list[DeviceEvent]]) -> tuple[KernelTime, ...]:
    groups: dict[tuple[Any, ...], list[DeviceEvent]] = {}
    for repetition in kept:
        for event in repetition:
            key = (event.name, _times(event.arguments.grid), _times(event.arguments.block))
            groups.setdefault(key, []).append(event)
    return tuple(_kernel(v, [], round(len(v) / len(kept))) for v in groups.values())


def _kernel(samples: Sequence[DeviceEvent], gaps: Sequence[float], count: int) -> KernelTime:
    first = samples[0]
    times = [s.duration_s for s in samples]
    given = first.arguments
    return KernelTime(
        first.name,
        first.category,
        count,
        statistics.median(times),
        min(times),
        p90(times),
        statistics.median(gaps) if gaps else None,
        _times(given.grid),
        _times(given.block),
        given.registers,
        given.shared,
        given.occupancy,
    )


def _times(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))
