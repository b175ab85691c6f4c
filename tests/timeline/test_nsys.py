"""Nsight Systems exports: what each table becomes, and what versions leave out."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from nsys_databases import GLOBAL_PID, GLOBAL_TID, SCHEMA, kernel, make, step_tables

from gpuscope.analysis.time_classes import rank_time
from gpuscope.errors import InputFileError
from gpuscope.timeline.nsys import read_nsys
from gpuscope.timeline.types import EVENT_KINDS, Timeline


@pytest.fixture
def timeline(tmp_path: Path) -> Timeline:
    return read_nsys(make(tmp_path / "step.sqlite", step_tables()))


def of_kind(timeline: Timeline, kind: str) -> list[str]:
    rows = timeline.events.kind == EVENT_KINDS.index(kind)
    return [timeline.names[i] for i in timeline.events.name[rows]]


def test_device_work_and_calls(timeline: Timeline) -> None:
    assert (
        of_kind(timeline, "kernel")
        == ["ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn"] * 2
    )
    assert len(of_kind(timeline, "communication")) == 2
    assert of_kind(timeline, "memcpy") == ["Memcpy HtoD (Pageable -> Device)"]
    assert of_kind(timeline, "memset") == ["Memset (Device)"]
    assert of_kind(timeline, "launch") == ["cudaMemcpyAsync"] + ["cudaLaunchKernel"] * 4
    assert of_kind(timeline, "sync") == ["Stream Wait Event", "cudaStreamSynchronize"]
    assert of_kind(timeline, "operator") == ["aten::mm"]
    assert of_kind(timeline, "other") == ["data loading", "poll"]


def test_times_are_exact_and_start_at_zero(timeline: Timeline) -> None:
    time = rank_time(timeline, 0)
    # memcpy 100, memset 10, kernels 500 + 150 + 500 + 150; from 1100 to 3000
    assert time.busy_s == pytest.approx(1_410e-9, abs=1e-15)
    assert time.span_s == pytest.approx(1_900e-9, abs=1e-15)
    assert time.communication_s == pytest.approx(300e-9, abs=1e-15)
    assert int(timeline.events.start_ns[0]) == 0
    assert timeline.sources[0].base_ns == 1_700_000_000_000_000_000 + 1_000
    assert (np.diff(timeline.events.start_ns) >= 0).all()


def test_steps_come_from_ranges(timeline: Timeline) -> None:
    assert [(s.start_ns, s.end_ns) for s in timeline.steps] == [(0, 1_010), (1_010, 2_020)]


def test_launches_and_operators_are_joined(timeline: Timeline) -> None:
    recorded, events = timeline.recorded, timeline.events
    assert recorded is not None
    names = [timeline.names[events.name[event]] for event in recorded.event]
    first = next(row for row, name in enumerate(names) if name.startswith("ampere"))
    launch = recorded.launch[first]
    assert timeline.names[events.name[launch]] == "cudaLaunchKernel"
    assert events.correlation[launch] == events.correlation[recorded.event[first]]
    assert timeline.names[events.name[recorded.operator[first]]] == "aten::mm"
    assert recorded.grid[first].tolist() == [10, 2, 1]
    assert recorded.block[first].tolist() == [256, 1, 1]
    assert recorded.registers[first] == 64
    assert recorded.shared_bytes[first] == 3072
    memset = [timeline.names[events.name[e]] for e in recorded.event].index("Memset (Device)")
    assert recorded.launch[memset] == -1
    assert recorded.nbytes[memset] == 64
    # Only the first product was launched inside aten::mm.
    assert (recorded.operator >= 0).sum() == 1


def test_lanes_and_the_source(timeline: Timeline) -> None:
    assert [lane.name for lane in timeline.lanes] == [
        "host thread 4001 (python)",
        "stream 7",
        "stream 20",
    ]
    source = timeline.sources[0]
    assert source.schema == "3.11"
    assert source.messages == ("Not all events were collected.",)
    device = source.devices[0]
    assert (device.name, device.sm_count, device.compute_capability) == ("NVIDIA H200", 132, (9, 0))
    assert device.max_threads_per_sm == 2048
    assert source.counts["launch"] == 5


def test_each_process_with_device_work_is_a_rank(tmp_path: Path) -> None:
    other = 5000 << 24
    tables = step_tables()
    tables["CUPTI_ACTIVITY_KIND_KERNEL"].append(kernel(1_400, 1_500, 12, pid=other))
    tables["CUPTI_ACTIVITY_KIND_RUNTIME"].append((1_300, 1_310, 0, other | 5, 12, 3, 0))
    timeline = read_nsys(make(tmp_path / "two.sqlite", tables))
    assert {lane.rank for lane in timeline.lanes} == {0, 1}
    recorded, events = timeline.recorded, timeline.events
    for row, launch in zip(recorded.event, recorded.launch, strict=True):
        if launch >= 0:
            assert timeline.lanes[events.lane[row]].rank == timeline.lanes[events.lane[launch]].rank
    assert rank_time(timeline, 1).busy_s == pytest.approx(100e-9)


def test_whole_graphs_are_told(tmp_path: Path) -> None:
    tables = {
        "StringIds": step_tables()["StringIds"],
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [(0, 500, 0, 7, 3, GLOBAL_PID, 9)],
    }
    timeline = read_nsys(make(tmp_path / "graph.sqlite", tables))
    assert of_kind(timeline, "kernel") == ["CUDA graph 9"]
    assert "--cuda-graph-trace=node" in timeline.notes[0]
    assert any("No CUDA calls" in note for note in timeline.notes)


def test_kernels_of_a_graph_keep_its_number(tmp_path: Path) -> None:
    tables = step_tables()
    tables["CUPTI_ACTIVITY_KIND_KERNEL"] = [kernel(1_300, 1_800, 12, graph=(7 << 32) + 3)]
    timeline = read_nsys(make(tmp_path / "node.sqlite", tables))
    assert timeline.recorded.graph.max() == 7


@pytest.mark.parametrize(
    "table", [name for name in SCHEMA if name not in ("CUPTI_ACTIVITY_KIND_KERNEL",)]
)
def test_any_table_may_be_missing(tmp_path: Path, table: str) -> None:
    tables = step_tables()
    tables.pop(table, None)
    timeline = read_nsys(make(tmp_path / "less.sqlite", tables))
    assert len(timeline.events) > 0
    assert rank_time(timeline, 0).span_s > 0


def test_older_columns_are_enough(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, shortName INT)"
        )
        database.execute("CREATE TABLE StringIds (id INT, value TEXT)")
        database.execute("INSERT INTO StringIds VALUES (1, 'k')")
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 1)")
    database.close()
    timeline = read_nsys(path)
    assert timeline.names == ("k",)
    assert timeline.events.duration_ns.tolist() == [4]
    assert timeline.recorded.registers.tolist() == [-1]


def test_only_ranges_is_a_host_story(tmp_path: Path) -> None:
    tables = {
        "StringIds": step_tables()["StringIds"],
        "NVTX_EVENTS": [(10, 50, 59, "train step 3", GLOBAL_TID, None, 0)],
    }
    timeline = read_nsys(make(tmp_path / "nvtx.sqlite", tables))
    assert [(s.start_ns, s.end_ns) for s in timeline.steps] == [(0, 40)]
    assert len(timeline.recorded) == 0


def test_what_is_not_an_export(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.sqlite") as database:
        database.execute("CREATE TABLE t (x)")
    database.close()
    with pytest.raises(InputFileError, match="not an export of Nsight Systems"):
        read_nsys(tmp_path / "other.sqlite")
    (tmp_path / "text.sqlite").write_text("hello")
    with pytest.raises(InputFileError, match="cannot be read as SQLite"):
        read_nsys(tmp_path / "text.sqlite")
    with pytest.raises(InputFileError, match="no events"):
        read_nsys(make(tmp_path / "empty.sqlite", {"StringIds": []}))
    with pytest.raises(InputFileError, match="There is no file"):
        read_nsys(tmp_path / "missing.sqlite")


def test_a_file_cut_off_is_an_error(tmp_path: Path) -> None:
    path = make(tmp_path / "step.sqlite", step_tables())
    whole = path.read_bytes()
    for size in range(0, len(whole), 4096):
        path.write_bytes(whole[:size])
        try:
            read_nsys(path)
        except InputFileError:
            continue
