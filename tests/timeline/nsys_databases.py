"""Small databases as `nsys export --type sqlite` writes them, by NVIDIA's documented schema."""

from __future__ import annotations

import sqlite3
from pathlib import Path

PID, TID = 4000, 4001
GLOBAL_PID = PID << 24
GLOBAL_TID = GLOBAL_PID | TID

SCHEMA = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT NOT NULL",
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
        "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, "
        "mangledName INTEGER, registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, "
        "gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, "
        "staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, graphNodeId INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
        "correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, "
        "srcKind INTEGER, dstKind INTEGER, graphNodeId INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, "
        "globalPid INTEGER, value INTEGER, bytes INTEGER, memKind INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, "
        "correlationId INTEGER, nameId INTEGER, returnValue INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, "
        "globalPid INTEGER, syncType INTEGER, eventId INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (
        "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, "
        "globalPid INTEGER, graphId INTEGER"
    ),
    "NVTX_EVENTS": (
        "start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, "
        "textId INTEGER, domainId INTEGER"
    ),
    "OSRT_API": "start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER",
    "ThreadNames": "nameId INTEGER, priority INTEGER, globalTid INTEGER",
    "TARGET_INFO_GPU": (
        "id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER, computeMajor INTEGER, "
        "computeMinor INTEGER, threadsPerWarp INTEGER, maxWarpsPerSm INTEGER"
    ),
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT",
    "META_DATA_EXPORT": "name TEXT, value TEXT",
    "DIAGNOSTIC_EVENT": "timestamp INTEGER, severity INTEGER, text TEXT",
}

STRINGS = [
    (1, "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn"),
    (2, "gemm"),
    (3, "cudaLaunchKernel_v7000"),
    (4, "cudaMemcpyAsync_v3020"),
    (5, "cudaStreamSynchronize_v3020"),
    (6, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    (7, "aten::mm, seq = 3, sizes = [[8, 8], [8, 8]]"),
    (8, "iteration"),
    (9, "poll"),
    (10, "python"),
    (11, "data loading"),
]


def make(path: Path, tables: dict[str, list[tuple[object, ...]]]) -> Path:
    """Write a database with these tables only, as nsys makes tables lazily."""
    with sqlite3.connect(path) as database:
        for name, rows in tables.items():
            database.execute(f"CREATE TABLE {name} ({SCHEMA[name]})")
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                database.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    database.close()
    return path


def kernel(
    start: int,
    end: int,
    correlation: int,
    *,
    name: int = 1,
    stream: int = 7,
    pid: int = GLOBAL_PID,
    graph: int | None = None,
) -> tuple[object, ...]:
    return (
        start,
        end,
        0,
        1,
        stream,
        correlation,
        pid,
        name,
        2,
        name,
        64,
        10,
        2,
        1,
        256,
        1,
        1,
        1024,
        2048,
        graph,
    )


def step_tables() -> dict[str, list[tuple[object, ...]]]:
    """Two iterations of a product and an all-reduce, with a copy before them."""
    return {
        "StringIds": STRINGS,
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            kernel(1_300, 1_800, 12),
            kernel(1_850, 2_000, 13, name=6, stream=20),
            kernel(2_300, 2_800, 15),
            kernel(2_850, 3_000, 16, name=6, stream=20),
        ],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [
            (1_100, 1_200, 0, 1, 7, 11, GLOBAL_PID, 4096, 1, 0, 2, None)
        ],
        "CUPTI_ACTIVITY_KIND_MEMSET": [(1_250, 1_260, 0, 7, 10, GLOBAL_PID, 0, 64, 2)],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            (1_050, 1_090, 0, GLOBAL_TID, 11, 4, 0),
            (1_220, 1_240, 0, GLOBAL_TID, 12, 3, 0),
            (1_245, 1_248, 0, GLOBAL_TID, 13, 3, 0),
            (2_050, 2_060, 0, GLOBAL_TID, 15, 3, 0),
            (2_070, 2_080, 0, GLOBAL_TID, 16, 3, 0),
            (2_090, 3_010, 0, GLOBAL_TID, 17, 5, 0),
        ],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [
            (1_810, 1_810, 0, 20, 14, GLOBAL_PID, 2, 5),
            (2_095, 3_005, 0, 7, 17, GLOBAL_PID, 3, 0),
        ],
        "NVTX_EVENTS": [
            (1_000, 2_010, 59, "iteration", GLOBAL_TID, None, 0),
            (2_010, 3_020, 59, None, GLOBAL_TID, 8, 0),
            (1_210, 1_244, 59, None, GLOBAL_TID, 7, 0),
            (1_000, 1_100, 60, None, GLOBAL_TID, 11, 0),
            (1_000, None, 75, "a domain", GLOBAL_TID, None, 1),
        ],
        "OSRT_API": [(1_120, 1_140, GLOBAL_TID, 9)],
        "ThreadNames": [(10, 0, GLOBAL_TID)],
        "TARGET_INFO_GPU": [(0, "NVIDIA H200", 150_000_000_000, 132, 9, 0, 32, 64)],
        "TARGET_INFO_SESSION_START_TIME": [(1_700_000_000_000_000_000, "")],
        "META_DATA_EXPORT": [
            ("EXPORT_SCHEMA_VERSION_MAJOR", "3"),
            ("EXPORT_SCHEMA_VERSION_MINOR", "11"),
        ],
        "DIAGNOSTIC_EVENT": [(0, 1, "all is well"), (5, 2, "Not all events were collected.")],
    }
