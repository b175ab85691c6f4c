"""Small databases as rocprofv3 writes them, by rocprofiler-sdk's `rocpd_tables.sql`."""

from __future__ import annotations

import sqlite3

TABLES = {
    "string": "id INTEGER, guid TEXT, string TEXT",
    "info_node": "id INTEGER, guid TEXT, hostname TEXT",
    "info_process": "id INTEGER, guid TEXT, nid INTEGER, pid INTEGER",
    "info_thread": "id INTEGER, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER",
    "info_agent": "id INTEGER, guid TEXT, type TEXT, name TEXT, product_name TEXT",
    "info_kernel_symbol": "id INTEGER, guid TEXT, kernel_name TEXT, display_name TEXT",
    "event": "id INTEGER, guid TEXT, category_id INTEGER, stack_id INTEGER, correlation_id INTEGER",
    "region": (
        "id INTEGER, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, start BIGINT, end BIGINT, "
        "name_id INTEGER, event_id INTEGER"
    ),
    "kernel_dispatch": (
        "id INTEGER, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, "
        "kernel_id INTEGER, queue_id INTEGER, stream_id INTEGER, start BIGINT, end BIGINT, "
        "group_segment_size INTEGER, workgroup_size_x INTEGER, workgroup_size_y INTEGER, "
        "workgroup_size_z INTEGER, grid_size_x INTEGER, grid_size_y INTEGER, grid_size_z INTEGER, "
        "event_id INTEGER"
    ),
    "memory_copy": (
        "id INTEGER, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, start BIGINT, end BIGINT, "
        "name_id INTEGER, dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER, "
        "queue_id INTEGER, stream_id INTEGER, event_id INTEGER"
    ),
}

STRINGS = (
    "hipLaunchKernel", "MEMORY_COPY_HOST_TO_DEVICE", "HIP_RUNTIME_API_EXT", "MARKER_CORE_API",
    "step 1", "hipMemcpyAsync",
)  # fmt: skip

BASE_NS = 682678344984459


def process(pid: int, tie: str = "stack_id") -> dict[str, list[tuple[object, ...]]]:
    """Rows of one process: a kernel and a copy with their calls, within a marked step.

    Args:
        pid: of the process.
        tie: the column of `event` that ties a call to what it starts.
    """
    ties = {"stack_id": lambda n: (n, 0), "correlation_id": lambda n: (0, n)}[tie]
    return {
        "string": [(i, "g", text) for i, text in enumerate(STRINGS, 1)],
        "info_node": [(1, "g", "node-a")],
        "info_process": [(1, "g", 1, pid)],
        "info_thread": [(1, "g", 1, 1, pid)],
        "info_agent": [(1, "g", "CPU", "", ""), (2, "g", "GPU", "gfx942", "AMD Instinct MI300X")],
        "info_kernel_symbol": [(1, "g", "axpy.kd", "axpy(float*)")],
        "event": [
            (1, "g", 3, *ties(1)), (2, "g", 3, *ties(2)), (3, "g", 4, *ties(3)),
            (4, "g", 3, *ties(1)), (5, "g", 3, *ties(2)),
        ],
        "region": [
            (1, "g", 1, 1, 1, BASE_NS + 1000, BASE_NS + 6000, 1, 1),
            (2, "g", 1, 1, 1, BASE_NS + 6000, BASE_NS + 7000, 6, 2),
            (3, "g", 1, 1, 1, BASE_NS, BASE_NS + 20_000, 5, 3),
        ],
        "kernel_dispatch": [
            (1, "g", 1, 1, 1, 2, 1, 1, 1, BASE_NS + 8001, BASE_NS + 10_003, 512,
             256, 1, 1, 1000, 1, 1, 4),
        ],
        "memory_copy": [
            (1, "g", 1, 1, 1, BASE_NS + 11_000, BASE_NS + 12_000, 2, 2, 1, 4096, 1, 0, 5),
        ],
    }  # fmt: skip


def database(*processes: dict[str, list[tuple[object, ...]]]) -> bytes:
    """The bytes of a database with the tables of some processes, each with its identifier."""
    with sqlite3.connect(":memory:") as connection:
        for number, tables in enumerate(processes):
            for name, rows in tables.items():
                table = f"rocpd_{name}_0000{number}_aa"
                connection.execute(f"CREATE TABLE {table} ({TABLES[name]})")
                marks = ", ".join("?" * len(rows[0]))
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        connection.execute("CREATE VIEW rocpd_string AS SELECT * FROM rocpd_string_00000_aa")
        connection.commit()
        raw = connection.serialize()
    connection.close()
    return raw
