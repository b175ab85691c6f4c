"""rocprofv3's JSON (`rocprofv3 --output-format json`) in Kineto's words.

Format: AMD, rocprofiler-sdk, "Using rocprofv3", and the checks of its own tests: for each process
`buffer_records` (kernel_dispatch, memory_copy, hip_api; times in nanoseconds), `kernel_symbols`,
`agents` (type 2 is a GPU) and `strings`, which name kinds and operations by their numbers. A call
and the work that it starts have one internal correlation id. Grids count work items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.timeline.kineto.retold import Event, retold

MARK = "rocprofiler-sdk-tool"

_BEGIN = re.compile(rb'\s*\{\s*"' + MARK.encode() + rb'"')
_COMMAND = (
    "rocprofv3 --kernel-trace --memory-copy-trace --hip-trace --output-format json -- PROGRAM"
)
_GPU = 2
_LARGEST = 2**62
_COPY = re.compile(r"([HDP])(?:ost|evice)?(?:_to_|to|2)([HDP])(?:ost|evice)?(?![a-z])", re.I)


def is_rocprof(head: bytes) -> bool:
    """Return whether a file's first bytes, unpacked, are those of rocprofv3's JSON."""
    return _BEGIN.match(head) is not None


def as_kineto(path: Path) -> bytes:
    """Return the recording as Kineto would have written it.

    Raises:
        InputFileError: it has no kernels; as `retold` raises.
    """
    found = retold(path, _told, "cat", "kernel", MARK, _devices)
    if found is None:
        raise InputFileError(
            Text("{path} holds no kernels that can be read.", path=path),
            "",
            Text("Type: {command}", command=_COMMAND),
        )
    return found


def _told(processes: list[Event]) -> Iterator[Event]:
    for process in processes:
        yield from _Process(process).events()


def _devices(processes: list[Event]) -> Iterator[Event]:
    """Of each process the GPUs, by the numbers that its events carry; of several the first's."""
    for process in processes[:1]:
        for number, gpu in enumerate(_gpus(process)):
            yield {
                "id": number,
                "name": str(gpu.get("product_name") or ""),
                "numSms": gpu.get("cu_count"),
                "warpSize": gpu.get("wave_front_size"),
            }


def _gpus(process: Event) -> list[Event]:
    return [each for each in _maps(process.get("agents")) if each.get("type") == _GPU]


class _Process:
    """One process' records."""

    def __init__(self, found: Event) -> None:
        self._records = _map(found.get("buffer_records"))
        self._kinds = _maps(_map(found.get("strings")).get("buffer_records"))
        self._pid = _whole(_map(found.get("metadata")).get("pid")) or 0
        self._devices = {_handle(gpu, "id"): number for number, gpu in enumerate(_gpus(found))}
        self._streams: dict[tuple[str, int], int] = {}
        self._names = {
            _whole(each.get("kernel_id")): next(
                (
                    str(each[key])
                    for key in ("formatted_kernel_name", "truncated_kernel_name", "kernel_name")
                    if each.get(key)
                ),
                "",
            )
            for each in _maps(found.get("kernel_symbols"))
        }

    def events(self) -> Iterator[Event]:
        for record in _maps(self._records.get("hip_api")):
            thread = _whole(record.get("thread_id")) or 0
            yield from _whole_event(
                record, "cuda_runtime", self._operation(record), self._pid, thread, {}
            )
        for record in _maps(self._records.get("kernel_dispatch")):
            info = _map(record.get("dispatch_info"))
            name = self._names.get(_whole(info.get("kernel_id"))) or "kernel"
            device = self._devices.get(_handle(info, "agent_id"), 0)
            yield from self._on_device(record, info, "kernel", name, device, _shape(info))
        for record in _maps(self._records.get("memory_copy")):
            name = copy_name(self._operation(record))
            ends = [self._devices.get(_handle(record, end)) for end in _ENDS]
            device = next((end for end in ends if end is not None), 0)
            nbytes = _whole(record.get("bytes"))
            said = {} if nbytes is None else {"bytes": nbytes}
            yield from self._on_device(record, record, "gpu_memcpy", name, device, said)

    def _operation(self, record: Event) -> str:
        """The name of what was called, by its numbers."""
        kind, number = _whole(record.get("kind")), _whole(record.get("operation"))
        if kind is None or number is None or kind >= len(self._kinds):
            return ""
        named = self._kinds[kind].get("operations")
        return str(named[number]) if isinstance(named, list) and number < len(named) else ""

    def _on_device(
        self, record: Event, queued: Event, category: str, name: str, device: int, said: Event
    ) -> Iterator[Event]:
        # Without --hip-trace every stream is 0: then the queues tell what ran beside what.
        handle = _handle(record, "stream_id")
        key = ("stream", handle) if handle else ("queue", _handle(queued, "queue_id") or 0)
        stream = self._streams.setdefault(key, len(self._streams))
        args = {"device": device, "stream": stream, **said}
        yield from _whole_event(record, category, name, device, stream, args)


_ENDS = ("dst_agent_id", "src_agent_id")


def copy_name(operation: str) -> str:
    """Kineto's name of a copy ("Memcpy HtoD"), by rocprofv3's ("MEMORY_COPY_HOST_TO_DEVICE") or
    XLA's ("MemcpyH2D", "CopyDeviceToDevice")."""
    way = _COPY.search(operation)
    return "Memcpy " + "to".join(way.groups()).upper().replace("TO", "to") if way else "Memcpy"


def _whole_event(
    record: Event, category: str, name: str, pid: int, tid: int, args: Event
) -> Iterator[Event]:
    start, end = _whole(record.get("start_timestamp")), _whole(record.get("end_timestamp"))
    if start is None or end is None or end < start or not name:
        return
    correlation = _whole(_map(record.get("correlation_id")).get("internal"))
    if correlation is not None:
        args = {**args, "correlation": correlation}
    yield {
        "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid,
        "ts": f"{start // 1000}.{start % 1000:03d}", "dur": (end - start) / 1000, "args": args,
    }  # fmt: skip


def _shape(info: Event) -> Event:
    """Grid (in blocks, as Kineto counts) and block; {} where they are not told."""
    items, block = (
        [_whole(_map(info.get(key)).get(axis)) or 0 for axis in "xyz"]
        for key in ("grid_size", "workgroup_size")
    )
    if not all(block) or not all(items):
        return {}
    return {"grid": [-(-n // b) for n, b in zip(items, block, strict=True)], "block": block}


def _map(found: object) -> Event:
    return found if isinstance(found, dict) else {}


def _maps(found: object) -> list[Any]:
    return [_map(each) for each in found] if isinstance(found, list) else []


def _handle(found: Event, key: str) -> int | None:
    handle = _map(found.get(key)).get("handle")
    return handle if isinstance(handle, int) else None


def _whole(found: object) -> int | None:
    """A count, or a time, that fits; None for anything else."""
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < _LARGEST:
        return None
    return found
