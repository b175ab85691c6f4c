"""A PyTorch memory snapshot: allocated and reserved over time, the peak, and what held it.

A snapshot is what the caching allocator holds at one moment (`segments`, with their blocks), and,
where `torch.cuda.memory._record_memory_history` was on, what led there (`device_traces`). The
history may have begun in the middle of the run, so the curves are computed backwards from the
state at the end, which is known exactly. The structure is documented in `torch.cuda.memory`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.outside import limits
from gpuscope.timeline.allocator import round_size
from gpuscope.timeline.memory_blocks import MemoryBlocks
from gpuscope.timeline.snapshot.blocks import recorded_blocks
from gpuscope.timeline.snapshot.frames import user_frame, word
from gpuscope.timeline.snapshot.holders import Live, at_peak, live_at
from gpuscope.timeline.snapshot.unpickle import load_plain
from gpuscope.timeline.types import Ints

_RESERVING = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_LARGEST = 2**50
"""Bytes: a thousand times the memory of any device."""

_LATEST_US = 2**52
"""A hundred years: a time beyond is none, and a thousand times it fits in a column."""

_LIVE = ("active_allocated",)
_IN_USE = ("active_allocated", "active_awaiting_free", "active_pending_free")


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """A request that the device could not serve.

    Attributes:
        requested_bytes: what was asked for.
        device_free_bytes: what the device still had; None if not recorded.
        allocated_bytes, reserved_bytes: what the allocator held at that moment.
        frame: the user's line that asked; "" if unknown.
    """

    requested_bytes: int
    device_free_bytes: int | None
    allocated_bytes: int
    reserved_bytes: int
    frame: str


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """The memory of one device.

    Attributes:
        device: its index.
        time_ns: times of the curve, ascending from 0; a single 0 where no history was recorded.
        allocated_bytes, reserved_bytes: at each of these times.
        peak_bytes: most bytes allocated.
        peak_time_ns: when.
        at_peak: bytes by category at the peak, largest first; sums to `peak_bytes`.
        holders: the lines that hold most at the peak: (line, bytes, blocks), largest first.
        end_allocated_bytes, end_reserved_bytes: at the moment of the snapshot.
        fragmented_bytes: free at that moment, but in segments that are partly in use, so that the
            device cannot get them back.
        cached_bytes: free at that moment, in segments that are wholly free.
        largest_free_bytes: the largest block that is free in its segment.
        history: whether what led there was recorded.
        timed: whether its times are real; else its points are only in order.
        out_of_memory: requests that failed, in order.
        skipped: entries that were damaged.
        blocks: what lay where, from when to when; None where nothing was there.
    """

    device: int
    time_ns: Ints
    allocated_bytes: Ints
    reserved_bytes: Ints
    peak_bytes: int
    peak_time_ns: int
    at_peak: Mapping[str, int]
    holders: tuple[tuple[str, int, int], ...]
    end_allocated_bytes: int
    end_reserved_bytes: int
    fragmented_bytes: int
    cached_bytes: int
    largest_free_bytes: int
    history: bool
    timed: bool
    out_of_memory: tuple[OutOfMemory, ...]
    skipped: int
    blocks: MemoryBlocks | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot's devices that hold or held memory, by index, with settings of the allocator."""

    path: str
    devices: tuple[DeviceMemory, ...]
    settings: Mapping[str, str]


def read_snapshot(path: str | Path) -> Snapshot:
    """Read a pickle written by `torch.cuda.memory._dump_snapshot`, without executing it.

    It is read in a process of its own, whose memory and time are limited.

    Raises:
        InputFileError: missing, damaged, not a snapshot, a snapshot of nothing, or one whose
            reading takes more than `gpuscope.outside.limits` allows.
    """
    from gpuscope.outside.apart import read_apart

    found: Snapshot = read_apart("gpuscope.timeline.snapshot.read:snapshot_of", path)
    return found


def snapshot_of(path: str | Path) -> Snapshot:
    """What `read_snapshot` does, in this process and without limits.

    Raises:
        InputFileError: as there.
    """
    data = load_plain(path)
    if isinstance(data, list):  # the format of 2022: the segments alone
        data = {"segments": data, "device_traces": []}
    if isinstance(data, dict) and isinstance(data.get("entries"), list):
        raise InputFileError(
            Text("{path} is a dump of PyTorch's flight recorder: no memory snapshot.", path=path),
            Text("It says which collective each rank was in."),
            Text("Type: gpuscope explain error {path}", path=path),
        )
    if not isinstance(data, dict) or not isinstance(data.get("segments"), list):
        raise InputFileError(
            Text("{path} is not a memory snapshot.", path=path),
            Text("It has no list 'segments'."),
            Text("Dump one with torch.cuda.memory._dump_snapshot(FILE)."),
        )
    segments: dict[int, list[Mapping[str, Any]]] = {}
    for segment in _tables(data["segments"]):
        device = _whole(segment.get("device")) or 0
        if device >= 0:
            segments.setdefault(device, []).append(segment)
    histories = [_listed(trace) for trace in _listed(data.get("device_traces"))]
    used = {*segments, *(device for device, trace in enumerate(histories) if trace)}
    if len(used) > limits.parties():
        raise limits.holds_too_many(path, Text("devices"), limits.parties())
    devices = tuple(
        _device(
            path,
            device,
            segments.get(device, []),
            histories[device] if device < len(histories) else [],
        )
        for device in sorted(used)
    )
    if not devices:
        raise InputFileError(
            Text("{path} holds no memory.", path=path),
            Text("No device had allocated any when it was dumped."),
            Text("Dump it while the model is there, after _record_memory_history()."),
        )
    settings = data.get("allocator_settings")
    known = settings if isinstance(settings, dict) else {}
    said = {
        key: str(value)
        for key, value in known.items()
        if isinstance(key, str) and isinstance(value, str | bool | float)
    }
    return Snapshot(str(path), devices, said)


@dataclass(frozen=True, slots=True)
class _History:
    """The usable entries of a device's trace, as columns."""

    entries: list[dict[str, Any]]
    allocating: Ints  # bytes allocated (+) or freed (-) by each entry
    reserving: Ints
    time_ns: Ints
    timed: bool
    skipped: int


def _device(
    path: str | Path, device: int, segments: Sequence[Mapping[str, Any]], trace: list[Any]
) -> DeviceMemory:
    blocks = _blocks(segments)
    end_allocated = sum(size for _, size, state, _ in blocks if state in _LIVE)
    end_reserved = sum(_size(s.get("total_size")) for s in segments)
    history = _history(trace)
    moved = sum(round_size(_size(e.get("size"))) for e in history.entries)
    if max(end_allocated, end_reserved) + moved >= 2**62:  # sums must fit in a column
        raise InputFileError(
            Text("{path} is damaged.", path=path),
            Text("Its sizes add up to more than any memory."),
            Text("Dump it again."),
        )
    # Backwards from the end, which is known; the first point is the state before the history.
    allocated = _backwards(history.allocating, end_allocated)
    reserved = _backwards(history.reserving, end_reserved)
    time_ns = np.concatenate((history.time_ns[:1], history.time_ns))
    if not len(time_ns):
        time_ns = np.zeros(1, np.int64)
    peak = int(allocated.argmax())
    final = {
        address: Live(address, size, frames, True)
        for address, size, state, frames in blocks
        if state in _LIVE
    }
    live = live_at(history.entries, peak, final)
    categories, holders = at_peak(live, int(allocated[peak]))
    fragmented, cached, largest = _free(segments)
    return DeviceMemory(
        device=device,
        time_ns=time_ns,
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        peak_bytes=int(allocated[peak]),
        peak_time_ns=int(time_ns[peak]),
        at_peak=categories,
        holders=holders,
        end_allocated_bytes=end_allocated,
        end_reserved_bytes=end_reserved,
        fragmented_bytes=fragmented,
        cached_bytes=cached,
        largest_free_bytes=largest,
        history=bool(history.entries),
        timed=history.timed,
        out_of_memory=_failures(history, allocated, reserved),
        skipped=history.skipped,
        blocks=recorded_blocks(history.entries, history.time_ns.tolist(), final, _places(segments)),
    )


def _history(trace: Sequence[Any]) -> _History:
    entries = [e for e in trace if isinstance(e, dict) and _usable(e)]
    count = len(entries)
    allocating = np.fromiter((_allocating(e) for e in entries), np.int64, count)
    reserving = np.fromiter(
        (_RESERVING.get(e["action"], 0) * _size(e.get("size")) for e in entries), np.int64, count
    )
    stamps = [_whole(e.get("time_us")) for e in entries]
    timed = count > 0 and all(stamp is not None and abs(stamp) < _LATEST_US for stamp in stamps)
    if timed:
        time_us = np.array(stamps, np.int64)
        time_ns = (np.maximum.accumulate(time_us) - time_us[0]) * 1000
    else:
        time_ns = np.arange(count, dtype=np.int64) * 1000
    return _History(entries, allocating, reserving, time_ns, timed, len(trace) - count)


def _usable(entry: Mapping[str, Any]) -> bool:
    action, size = entry.get("action"), entry.get("size")
    if not isinstance(action, str):
        return False
    return size is None or ((whole := _whole(size)) is not None and whole <= _LARGEST)


def _allocating(entry: Mapping[str, Any]) -> int:
    """What an entry adds to `torch.cuda.memory_allocated()`, which counts rounded blocks."""
    action = entry["action"]
    size = _size(entry.get("size"))
    if action == "alloc":
        return round_size(size)
    # The allocator takes a block off its count when the tensor is freed, not when the streams
    # that use it have passed ("free_completed").
    return -round_size(size) if action == "free_requested" else 0


def _backwards(change: Ints, end: int) -> Ints:
    """The value before the first change and after each, given the value at the end."""
    after = end - (int(change.sum()) - np.cumsum(change))
    before = np.array([end - int(change.sum())], np.int64)
    return np.maximum(np.concatenate((before, after)), 0)


def _failures(history: _History, allocated: Ints, reserved: Ints) -> tuple[OutOfMemory, ...]:
    return tuple(
        OutOfMemory(
            requested_bytes=_size(entry.get("size")),
            device_free_bytes=_whole(entry.get("device_free")),
            allocated_bytes=int(allocated[i + 1]),
            reserved_bytes=int(reserved[i + 1]),
            frame=user_frame(frames_of(entry)),
        )
        for i, entry in enumerate(history.entries)
        if entry["action"] == "oom"
    )


# -- the state at the end -------------------------------------------------------------------------

_Block = tuple[int, int, str, Sequence[Mapping[str, Any]]]


def _blocks(segments: Sequence[Mapping[str, Any]]) -> list[_Block]:
    """Address, size, state and stack of every block; older files give no address."""
    found: list[_Block] = []
    for segment in segments:
        at = _whole(segment.get("address")) or 0
        for block in _tables(segment.get("blocks")):
            size = _size(block.get("size"))
            address = _whole(block.get("address"))
            found.append(
                (
                    at if address is None else address,
                    size,
                    word(block.get("state")),
                    frames_of(block),
                )
            )
            at += size
    return found


def _places(segments: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Address and bytes of each segment that says where it lies."""
    return [
        (address, _size(segment.get("total_size")))
        for segment in segments
        if (address := _whole(segment.get("address"))) is not None and address >= 0
    ]


def _free(segments: Sequence[Mapping[str, Any]]) -> tuple[int, int, int]:
    """Bytes free in segments in use, bytes of wholly free segments, the largest free block."""
    fragmented = cached = largest = 0
    for segment in segments:
        blocks = _tables(segment.get("blocks"))
        free = [_size(b.get("size")) for b in blocks if b.get("state") not in _IN_USE]
        largest = max([largest, *free])
        if len(free) == len(blocks):
            cached += sum(free)
        else:
            fragmented += sum(free)
    return fragmented, cached, largest


def frames_of(entry: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The stack of an entry or block, innermost first; older files keep it under `history`."""
    frames = entry.get("frames")
    if not frames and isinstance(entry.get("history"), list):
        frames = next((h.get("frames") for h in entry["history"] if isinstance(h, dict)), None)
    return [f for f in frames if isinstance(f, dict)] if isinstance(frames, list | tuple) else ()


def _whole(value: object) -> int | None:
    """An integer that a column can hold; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**62:
        return None
    return value


def _size(value: object) -> int:
    """Bytes; 0 for what no device has."""
    size = _whole(value) or 0
    return size if 0 <= size <= _LARGEST else 0


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _tables(value: object) -> list[Mapping[str, Any]]:
    return [each for each in _listed(value) if isinstance(each, dict)]
