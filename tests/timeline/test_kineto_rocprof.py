"""rocprofv3's JSON, built to the format of rocprofiler-sdk (no recording of it was at hand)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gpuscope.errors import InputFileError
from gpuscope.loading import load
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.types import EVENT_KINDS


def record(start: int, end: int, internal: int, **more: Any) -> dict[str, Any]:
    return {
        "start_timestamp": start,
        "end_timestamp": end,
        "correlation_id": {"internal": internal, "external": 0},
        "thread_id": 99,
        **more,
    }


def xyz(x: int) -> dict[str, int]:
    return {"x": x, "y": 1, "z": 1}


def recording() -> dict[str, Any]:
    base = 682678344984459
    kernel = {
        "agent_id": {"handle": 1001},
        "queue_id": {"handle": 18446744073709551600},
        "kernel_id": 7,
        "grid_size": xyz(1000),
        "workgroup_size": xyz(256),
    }
    copy = {
        "kind": 1, "operation": 1, "bytes": 4096,
        "src_agent_id": {"handle": 1000}, "dst_agent_id": {"handle": 1001},
    }  # fmt: skip
    process = {
        "metadata": {"pid": 17},
        "agents": [{"id": {"handle": 1000}, "type": 1}, {"id": {"handle": 1001}, "type": 2}],
        "kernel_symbols": [{"kernel_id": 0}, {"kernel_id": 7, "formatted_kernel_name": "axpy"}],
        "strings": {
            "buffer_records": [
                {"kind": "HIP_RUNTIME_API", "operations": ["hipMalloc", "hipLaunchKernel"]},
                {"kind": "MEMORY_COPY", "operations": ["NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
            ]
        },
        "buffer_records": {
            "hip_api": [record(base, base + 5_000, 1, kind=0, operation=1)],
            "kernel_dispatch": [record(base + 7_001, base + 9_003, 1, dispatch_info=kernel)],
            "memory_copy": [record(base + 10_000, base + 11_000, 2, **copy)],
        },
    }
    return {"rocprofiler-sdk-tool": [process]}


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_kernels_copies_and_calls_are_read_and_tied(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    text = json.dumps(recording()).encode()
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    timeline = read_trace(path)
    events = timeline.events
    rows = zip(events.name, events.kind, events.start_ns, events.duration_ns, strict=True)
    assert {(timeline.names[n], EVENT_KINDS[k], int(at), int(ns)) for n, k, at, ns in rows} == {
        ("hipLaunchKernel", "launch", 0, 5000),
        ("axpy", "kernel", 7001, 2002),
        ("Memcpy HtoD", "memcpy", 10_000, 1000),
    }
    assert timeline.sources[0].path == str(path)


def test_it_is_analysed(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(recording()))
    run = load(path)
    launches = run.analysis.launches
    assert (launches.count, launches.kernels, launches.unlinked) == (1, 1, 1)


def test_records_that_lack_or_twist_something_are_left_out(tmp_path: Path) -> None:
    found = recording()
    records = found["rocprofiler-sdk-tool"][0]["buffer_records"]
    records["kernel_dispatch"] += [{}, 3, record(9, 1, 4), record(-1, 1, 4), record(1, 2**70, 4)]
    records["hip_api"] += [record(1, 2, 5, kind=9, operation=0), record(1, 2, 5, kind="x")]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(found))
    assert len(read_trace(path).events) == 3


@pytest.mark.parametrize("found", [[], [{}], [3], {}, None])
def test_a_file_without_kernels_is_refused(tmp_path: Path, found: object) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": found}))
    with pytest.raises(InputFileError, match="no kernels that can be read") as caught:
        read_trace(path)
    assert "rocprofv3 --kernel-trace" in caught.value.next_step
