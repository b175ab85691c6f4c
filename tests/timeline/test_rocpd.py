"""rocprofv3's databases, built to rocprofiler-sdk's schema (no recording of it was at hand)."""

from __future__ import annotations

from pathlib import Path

import pytest
import rocpd_databases as built

from gpuscope.errors import InputFileError
from gpuscope.loading import load
from gpuscope.timeline.nsys import read_nsys
from gpuscope.timeline.ranks import ranks_of
from gpuscope.timeline.types import EVENT_KINDS


@pytest.mark.parametrize("tie", ["stack_id", "correlation_id"])
def test_kernels_copies_calls_and_steps_are_read_and_tied(tmp_path: Path, tie: str) -> None:
    path = tmp_path / "17_results.db"
    path.write_bytes(built.database(built.process(17, tie)))
    timeline = read_nsys(path)
    events = timeline.events
    rows = zip(events.name, events.kind, events.start_ns, events.duration_ns, strict=True)
    assert {(timeline.names[n], EVENT_KINDS[k], int(at), int(ns)) for n, k, at, ns in rows} == {
        ("step 1", "step", 0, 20_000),
        ("hipLaunchKernel", "launch", 1000, 5000),
        ("hipMemcpyAsync", "launch", 6000, 1000),
        ("axpy(float*)", "kernel", 8001, 2002),
        ("Memcpy HtoD", "memcpy", 11_000, 1000),
    }
    recorded = timeline.recorded
    assert recorded is not None
    assert recorded.grid[0].tolist() == [4, 1, 1]
    assert recorded.block[0].tolist() == [256, 1, 1]
    assert recorded.nbytes.tolist() == [-1, 4096]
    launched = [timeline.names[events.name[i]] for i in recorded.launch]
    assert launched == ["hipLaunchKernel", "hipMemcpyAsync"]
    assert [(step.start_ns, step.end_ns) for step in timeline.steps] == [(0, 20_000)]
    source = timeline.sources[0]
    assert (source.format, source.host, source.devices[0].name) == (
        "rocpd", "node-a", "AMD Instinct MI300X",
    )  # fmt: skip


def test_it_is_analysed_and_each_process_is_a_rank(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    path.write_bytes(built.database(built.process(17), built.process(18)))
    run = load(path)
    assert ranks_of(run.timeline) == (0, 1)
    assert run.analysis.launches.unlinked == 0


def test_references_that_lead_nowhere_cost_a_name_and_no_more(tmp_path: Path) -> None:
    found = built.process(17)
    for name in ("string", "event", "info_kernel_symbol", "info_process"):
        found[name] = [(None, "g", *(None,) * (len(found[name][0]) - 2))]
    path = tmp_path / "r.db"
    path.write_bytes(built.database(found))
    timeline = read_nsys(path)
    assert {"unknown kernel", "Memcpy", "call"} <= set(timeline.names)


def test_a_database_without_events_is_refused(tmp_path: Path) -> None:
    found = {name: rows[:] for name, rows in built.process(17).items()}
    for name in ("region", "kernel_dispatch", "memory_copy"):
        found[name] = [(None,) * len(found[name][0])]
    path = tmp_path / "r.db"
    path.write_bytes(built.database(found))
    with pytest.raises(InputFileError, match="no events") as caught:
        read_nsys(path)
    assert "rocprofv3 --sys-trace" in caught.value.next_step
