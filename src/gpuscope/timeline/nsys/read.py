"""An Nsight Systems export to a `Timeline`: device work, CUDA calls, NVTX ranges, OS calls.

Each process that uses a device becomes a rank (in the order of process ids: the export does not
say more). Meaning of the numbers, by NVIDIA's "SQLite Schema Reference": a `globalTid` holds the
thread in its lowest 24 bits and the process in the next 24; `eventType` 59 and 60 of `NVTX_EVENTS`
are push/pop and start/end ranges; `syncType` 2 is a stream that waits for an event.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.outside import limits
from gpuscope.timeline.nsys.build import Builder, Rows
from gpuscope.timeline.nsys.database import Columns, Database
from gpuscope.timeline.types import Ints, RecordedDevice, Source, Timeline

_COPY = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "HtoD (unified memory)",
    12: "DtoH (unified memory)",
    13: "DtoD (unified memory)",
}
"""CUpti_ActivityMemcpyKind; 11 to 13 are nsys's own for unified memory."""

_MEMORY = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
    5: "Device",
    6: "Managed",
}
"""CUDA memory kinds as nsys numbers them (ENUM_CUDA_MEM_KIND)."""

_NVTX_RANGES = (59, 60, 70, 71)
_STREAM_WAITS = 2

_VERSION = re.compile(r"_v\d+$|_ptsz$")
_LAUNCH = re.compile(
    r"(cuda|cu)(Launch|GraphLaunch|Memcpy|Memset)|cudaMemPrefetch|cuMemcpy|cuMemset", re.IGNORECASE
)
_SYNC = re.compile(r"(cuda|cu)\w*Synchronize", re.IGNORECASE)
_BLOCKING = re.compile(r"^(cudaMemcpy|cuMemcpy(HtoD|DtoH|DtoD)?(_v2)?)(?!.*Async)$")
_STEP = re.compile(
    r"^(gpuscope\.step|profilerstep#?|((train(ing)?|decode|prefill)[ _]?)?(step|iteration|iter))"
    r"([ _#:=-]*\d+)?$",
    re.IGNORECASE,
)
_OPERATOR = re.compile(r"^(aten|torch|c10d|_c10d_functional|nccl|autograd)::[\w:]+")


@dataclass(frozen=True, slots=True)
class _Strings:
    """Names by id, numbered in the builder."""

    database: Database
    builder: Builder

    def number(self, ids: Ints, unknown: str) -> Ints:
        """The name of each id as the builder numbers it."""
        distinct, at = np.unique(ids, return_inverse=True)
        found = self.database.strings(distinct.tolist())
        texts = (_plain(found.get(i, "") or unknown) for i in distinct.tolist())
        return np.array([self.builder.name(text) for text in texts], np.int64)[at]


def read_nsys(path: str | Path) -> Timeline:
    """Read an export made with `nsys export --type sqlite`, or a database of rocprofv3 (`rocpd`).

    Kernels, copies, memsets and whole graphs (where only those were traced) are device work; CUDA
    calls are launches, synchronisations or others; NVTX ranges are operators where PyTorch named
    them so (`emit_nvtx`), steps where their name says step or iteration, and marks else.

    Raises:
        InputFileError: missing, damaged, neither of the two, or nothing in it.
    """
    with Database(path) as database:
        if database.parts:
            from gpuscope.timeline.nsys.rocpd import read_rocpd

            return read_rocpd(database)
        builder = Builder()
        strings = _Strings(database, builder)
        notes = [
            *_kernels(database, builder, strings),
            *_graphs(database, builder),
            *_runtime(database, builder, strings),
            *_nvtx(database, builder, strings),
        ]
        _copies(database, builder)
        _memsets(database, builder)
        _waits(database, builder)
        _os_calls(database, builder, strings)
        if not builder.count:
            raise InputFileError(
                Text("{path} holds no events.", path=path),
                Text("No CUDA, NVTX or OS calls were recorded."),
                Text("Record with: nsys profile --trace cuda,nvtx,osrt python train.py"),
            )
        if len(builder.ranks) > limits.parties():
            raise limits.holds_too_many(path, Text("processes"), limits.parties())
        _threads(database, builder)
        sources = _sources(database, builder, Path(path))
        return builder.timeline(sources, tuple(dict.fromkeys(notes)))


# -- device work ----------------------------------------------------------------------------------


def _kernels(database: Database, builder: Builder, strings: _Strings) -> list[str]:
    c = database.columns(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        (
            "start",
            "end",
            "deviceId",
            "streamId",
            "correlationId",
            "globalPid",
            "demangledName",
            "shortName",
            "registersPerThread",
            "gridX",
            "gridY",
            "gridZ",
            "blockX",
            "blockY",
            "blockZ",
            "staticSharedMemory",
            "dynamicSharedMemory",
            "graphNodeId",
        ),
    )
    from gpuscope.timeline.communication import is_communication

    name = strings.number(
        np.where(c["demangledName"] >= 0, c["demangledName"], c["shortName"]), "unknown kernel"
    )
    communicates = np.array([is_communication(text) for text in builder.names], bool)
    kinds = np.where(communicates[name], builder.COMMUNICATION, builder.KERNEL)
    shared = np.maximum(c["staticSharedMemory"], 0) + np.maximum(c["dynamicSharedMemory"], 0)
    builder.device(
        _rows(c, name, kinds),
        c["deviceId"],
        c["streamId"],
        grid=np.stack([c["gridX"], c["gridY"], c["gridZ"]], axis=1),
        block=np.stack([c["blockX"], c["blockY"], c["blockZ"]], axis=1),
        registers=c["registersPerThread"],
        shared_bytes=shared,
        graph=np.where(c["graphNodeId"] > 0, c["graphNodeId"] >> 32, -1),
    )
    return []


def _graphs(database: Database, builder: Builder) -> list[str]:
    """Graphs that were traced as a whole: one event for all of their kernels."""
    c = database.columns(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphId"),
    )
    if not len(c["start"]):
        return []
    name = np.array([builder.name(f"CUDA graph {i}") for i in c["graphId"].tolist()], np.int64)
    rows = _rows(c, name, np.full(len(name), builder.KERNEL))
    builder.device(rows, c["deviceId"], c["streamId"], graph=c["graphId"])
    return [
        Text(
            "CUDA graphs were recorded as a whole, so their kernels are not known. Record with "
            "--cuda-graph-trace=node to see them."
        )
    ]


def _copies(database: Database, builder: Builder) -> None:
    c = database.columns(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        (
            "start",
            "end",
            "deviceId",
            "streamId",
            "correlationId",
            "globalPid",
            "bytes",
            "copyKind",
            "srcKind",
            "dstKind",
            "graphNodeId",
        ),
    )
    names = [
        builder.name(_copy_name(*key))
        for key in zip(*(c[k].tolist() for k in ("copyKind", "srcKind", "dstKind")), strict=True)
    ]
    rows = _rows(c, np.array(names, np.int64), np.full(len(names), builder.MEMCPY))
    builder.device(
        rows,
        c["deviceId"],
        c["streamId"],
        nbytes=c["bytes"],
        graph=np.where(c["graphNodeId"] > 0, c["graphNodeId"] >> 32, -1),
    )


def _copy_name(kind: int, source: int, target: int) -> str:
    """The name that Kineto gives the same copy: "Memcpy HtoD (Pageable -> Device)"."""
    sides = (_MEMORY.get(source), _MEMORY.get(target))
    ends = f" ({sides[0]} -> {sides[1]})" if sides[0] and sides[1] else ""
    return f"Memcpy {_COPY.get(kind, 'of unknown kind')}{ends}"


def _memsets(database: Database, builder: Builder) -> None:
    c = database.columns(
        "CUPTI_ACTIVITY_KIND_MEMSET",
        (
            "start",
            "end",
            "deviceId",
            "streamId",
            "correlationId",
            "globalPid",
            "bytes",
            "graphNodeId",
        ),
    )
    name = np.full(len(c["start"]), builder.name("Memset (Device)") if len(c["start"]) else 0)
    rows = _rows(c, name, np.full(len(name), builder.MEMSET))
    builder.device(
        rows,
        c["deviceId"],
        c["streamId"],
        nbytes=c["bytes"],
        graph=np.where(c["graphNodeId"] > 0, c["graphNodeId"] >> 32, -1),
    )


# -- the host -------------------------------------------------------------------------------------


def _runtime(database: Database, builder: Builder, strings: _Strings) -> list[str]:
    c = database.columns(
        "CUPTI_ACTIVITY_KIND_RUNTIME", ("start", "end", "globalTid", "correlationId", "nameId")
    )
    if not len(c["start"]):
        return [Text("No CUDA calls were recorded, so the host's part is not known.")]
    name = strings.number(c["nameId"], "CUDA call")
    kind_of = np.array([_call_kind(text, builder) for text in builder.names], np.int64)
    builder.host(_rows(c, name, kind_of[name]), c["globalTid"])
    return []


def _call_kind(name: str, builder: Builder) -> int:
    if _SYNC.search(name) or _BLOCKING.search(name):
        return builder.SYNC
    return builder.LAUNCH if _LAUNCH.search(name) else builder.OTHER


def _nvtx(database: Database, builder: Builder, strings: _Strings) -> list[str]:
    c = database.columns(
        "NVTX_EVENTS", ("start", "end", "eventType", "globalTid", "textId"), where="end"
    )
    texts = database.texts("NVTX_EVENTS", "text", where="end") or [""] * len(c["start"])
    by_id = database.strings(c["textId"].tolist())
    ranges = np.isin(c["eventType"], _NVTX_RANGES) & (c["end"] >= c["start"])
    labels = [text or by_id.get(i, "") for text, i in zip(texts, c["textId"].tolist(), strict=True)]
    keep = np.flatnonzero(ranges)
    kept = [labels[i] or "NVTX range" for i in keep.tolist()]
    names = np.array([builder.name(_operator_name(text)) for text in kept], np.int64)
    kinds = np.array([range_kind(text, builder) for text in kept], np.int64)
    columns = {key: column[keep] for key, column in c.items()}
    builder.host(_rows(columns, names, kinds), columns["globalTid"])
    builder.steps(np.array([bool(_STEP.match(text)) for text in kept], bool), columns)
    return []


def _operator_name(text: str) -> str:
    """`emit_nvtx` writes "aten::mm, seq = 12, sizes = [[..]]": the name is what stands first."""
    return text.partition(", seq = ")[0].partition(", op_id = ")[0]


def range_kind(text: str, builder: Builder) -> int:
    """Kind of a range that a program marked: a step, an operator of PyTorch's, or another."""
    if _STEP.match(text):
        return builder.STEP
    named = _OPERATOR.match(text) or ", seq = " in text or ", op_id = " in text
    return builder.OPERATOR if named else builder.OTHER


def _waits(database: Database, builder: Builder) -> None:
    """Streams that wait for an event of another; what the host waits for is among its calls."""
    c = database.columns(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "syncType"),
    )
    keep = c["syncType"] == _STREAM_WAITS
    columns = {key: column[keep] for key, column in c.items()}
    count = int(keep.sum())
    name = np.full(count, builder.name("Stream Wait Event") if count else 0)
    rows = _rows(columns, name, np.full(count, builder.SYNC))
    builder.on_stream(rows, columns["deviceId"], columns["streamId"])


def _os_calls(database: Database, builder: Builder, strings: _Strings) -> None:
    c = database.columns("OSRT_API", ("start", "end", "globalTid", "nameId"))
    name = strings.number(c["nameId"], "OS call")
    builder.host(_rows(c, name, np.full(len(name), builder.OTHER)), c["globalTid"])


def _threads(database: Database, builder: Builder) -> None:
    rows = database.columns("ThreadNames", ("nameId", "globalTid"))
    names = database.strings(rows["nameId"].tolist())
    for number, thread in zip(rows["nameId"].tolist(), rows["globalTid"].tolist(), strict=True):
        if names.get(number):
            builder.thread_names[thread] = names[number]


# -- where it comes from --------------------------------------------------------------------------


def _sources(database: Database, builder: Builder, path: Path) -> tuple[Source, ...]:
    facts = {
        str(name): str(value)
        for name, value in database.rows("META_DATA_EXPORT", ("name", "value"))
    }
    version = ".".join(
        facts[f"EXPORT_SCHEMA_VERSION_{part}"]
        for part in ("MAJOR", "MINOR", "MICRO")
        if f"EXPORT_SCHEMA_VERSION_{part}" in facts
    )
    epoch = database.columns("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))["utcEpochNs"]
    base = max(0, int(epoch[0])) if len(epoch) else 0
    devices, messages = _devices(database), _messages(database)
    env = {str(k): str(v) for k, v in database.rows("TARGET_INFO_SYSTEM_ENV", ("name", "value"))}
    return tuple(
        Source(
            rank=rank,
            path=str(path),
            format="nsys",
            host=env.get("Hostname", ""),
            devices=devices,
            base_ns=base + builder.origin_ns,
            schema=version or facts.get("EXPORT_SCHEMA_VERSION", ""),
            events_read=sum(counts.values()),
            counts=counts,
            messages=messages,
        )
        for rank, counts in enumerate(builder.counts())
    )


def _devices(database: Database) -> tuple[RecordedDevice, ...]:
    names = (
        "id",
        "name",
        "totalMemory",
        "smCount",
        "computeMajor",
        "computeMinor",
        "threadsPerWarp",
        "maxWarpsPerSm",
        "maxRegistersPerSm",
        "maxShmemPerSm",
    )
    devices: list[RecordedDevice] = []
    for row in database.rows("TARGET_INFO_GPU", names):
        fact = dict(zip(names, row, strict=True))
        major, minor = _positive(fact["computeMajor"]), _positive(fact["computeMinor"]) or 0
        warps, warp = _positive(fact["maxWarpsPerSm"]), _positive(fact["threadsPerWarp"])
        number = fact["id"]
        devices.append(
            RecordedDevice(
                index=number if isinstance(number, int) else len(devices),
                name=str(fact["name"] or ""),
                memory_bytes=_positive(fact["totalMemory"]),
                compute_capability=(major, minor) if major else None,
                sm_count=_positive(fact["smCount"]),
                warp_size=warp,
                max_threads_per_sm=warps * (warp or 32) if warps else None,
                registers_per_sm=_positive(fact["maxRegistersPerSm"]),
                shared_bytes_per_sm=_positive(fact["maxShmemPerSm"]),
            )
        )
    return tuple(devices)


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _messages(database: Database) -> tuple[str, ...]:
    """Warnings (severity 2) and errors (3) of the recorder, each once."""
    rows = database.rows("DIAGNOSTIC_EVENT", ("severity", "text"))
    known = (str(text) for severity, text in rows if isinstance(severity, int) and severity >= 2)
    return tuple(dict.fromkeys(known))[:20]


def _rows(columns: Columns, name: Ints, kind: Ints) -> Rows:
    """The columns that every event has; absent ones are -1."""
    count = len(columns["start"])
    missing = np.full(count, -1, np.int64)
    return Rows(
        start_ns=columns["start"],
        end_ns=np.maximum(columns["end"], columns["start"]),
        name=name,
        kind=np.asarray(kind, np.int64),
        correlation=columns.get("correlationId", missing),
        process=columns.get("globalPid", missing),
    )


def _plain(name: str) -> str:
    """A CUDA call's name without the version of its interface."""
    return _VERSION.sub("", name)
