"""The written file against the rules of the Trace Event Format and, where its program is at hand,
against Perfetto's own trace processor.

The `perfetto` package carries no trace processor: it downloads one on first use. To run that test,
name a binary in PERFETTO_TRACE_PROCESSOR or put `trace_processor_shell` on the PATH.
"""

import gzip
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timeline_programs import call, costed, kernel

from gpuscope.errors import InputFileError
from gpuscope.program.types import Op, Program, Storage
from gpuscope.timeline import attach_memory, simulate, simulate_memory
from gpuscope.timeline.perfetto import trace_events, write_chrome_trace
from gpuscope.timeline.types import DEVICE_KINDS, Counter, Lane


def example():
    ops = [
        call(kernel(40, lane="copy_h2d", stream=1, kind="transfer"), stream=1, phase="input"),
        call(
            kernel(30, kind="matmul", flops=1e9, tile=(128, 256, 64), waves=1.5, occupancy=0.5),
            module="layers.0.fc",
            name="aten::mm",
        ),
        call(kernel(5), kernel(6), phase="backward", module="layers.0.fc"),
        call(kernel(25, lane="link", kind="collective"), reads=[1], writes=[1]),
        call(kernel(3), sync="item"),
    ]
    program = Program(
        "test",
        tuple(Op(i, "aten::add") for i in range(len(ops))),
        storages=(Storage(0, 5 << 20, "activation", 1, 3),),
    )
    return attach_memory(simulate(costed(ops)).timeline, simulate_memory(program))


def check_rules(records):
    """The rules of the format that a viewer relies on; returns the complete events by thread."""
    threads: dict[tuple[int, int], list[tuple[int, int]]] = {}
    flows: dict[int, dict[str, dict]] = {}
    for r in records:
        assert r["ph"] in {"X", "M", "C", "s", "f"}
        assert isinstance(r["pid"], int)
        assert isinstance(r["tid"], int)
        assert isinstance(r["name"], str)
        if r["ph"] == "M":
            assert set(r["args"]) & {"name", "sort_index"}
            continue
        assert r["ts"] >= 0
        if r["ph"] == "X":
            assert r["dur"] >= 0
            span = (round(r["ts"] * 1000), round((r["ts"] + r["dur"]) * 1000))
            threads.setdefault((r["pid"], r["tid"]), []).append(span)
        elif r["ph"] == "C":
            assert all(isinstance(v, float) for v in r["args"].values())
        else:
            assert r["ph"] not in flows.setdefault(r["id"], {}), "a flow id is used once"
            flows[r["id"]][r["ph"]] = r
    named = {(r["pid"], r["tid"]) for r in records if r["name"] == "thread_name"}
    assert set(threads) <= named
    for spans in threads.values():
        _check_nesting(spans)
    for pair in flows.values():
        assert set(pair) == {"s", "f"}
        assert pair["s"]["ts"] <= pair["f"]["ts"]
        assert pair["f"]["bp"] == "e"
        for end in pair.values():
            at = round(end["ts"] * 1000)
            assert any(a <= at <= b for a, b in threads[end["pid"], end["tid"]])
    return threads, flows


def _check_nesting(spans):
    """Complete events of a thread contain each other or are apart."""
    open_ends: list[int] = []
    for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1]
        open_ends.append(end)


def test_file_follows_the_format(tmp_path: Path):
    timeline = example()
    path = tmp_path / "trace.json"
    write_chrome_trace(timeline, path, name="example")
    document = json.loads(path.read_text())
    assert document["otherData"]["name"] == "example"
    assert document["otherData"]["origin"] == "predicted"
    records = document["traceEvents"]
    threads, flows = check_rules(records)
    work = [r for r in records if r["ph"] == "X"]
    assert len(work) == len(timeline.events) + 1
    assert len(flows) == sum(r["cat"] == "launch" for r in work)
    names = {r["args"]["name"] for r in records if r["name"] in ("process_name", "thread_name")}
    assert {"rank 0 host", "rank 0 device", "steps"} <= names
    assert {lane.name for lane in timeline.lanes} <= names
    assert len(threads) == len(timeline.lanes) + 1


def test_times_survive_to_the_nanosecond():
    timeline = example()
    work = [r for r in trace_events(timeline) if r["ph"] == "X"][: len(timeline.events)]
    assert [round(r["ts"] * 1000) for r in work] == timeline.events.start_ns.tolist()
    assert [round(r["dur"] * 1000) for r in work] == timeline.events.duration_ns.tolist()


def test_kernels_say_what_they_do():
    (mm,) = [r for r in trace_events(example()) if r.get("args", {}).get("kind") == "matmul"]
    assert mm["cat"] == "kernel"
    assert mm["args"]["op"] == "aten::mm"
    assert mm["args"]["module"] == "layers.0.fc"
    assert mm["args"]["phase"] == "forward"
    assert mm["args"]["flops"] == 1e9
    assert mm["args"]["tile"] == "128x256x64"
    assert mm["args"]["waves"] == 1.5
    assert mm["args"]["occupancy"] == 0.5
    assert mm["args"]["limiter"] == "unknown"


def test_arrows_lead_from_the_launch_to_its_kernel():
    timeline = example()
    e = timeline.events
    starts = {
        int(e.correlation[i]): int(e.start_ns[i]) / 1000
        for i in np.flatnonzero(e.kind < DEVICE_KINDS).tolist()
    }
    ends = [r["ts"] for r in trace_events(timeline) if r["ph"] == "f"]
    assert sorted(ends) == sorted(starts.values())


def test_a_graph_launch_has_one_arrow():
    records = list(trace_events(simulate(costed([call(kernel(5))] * 9, graph=True)).timeline))
    check_rules(records)
    assert sum(r["ph"] == "s" for r in records) == 1


def test_memory_is_a_counter():
    counters = [r for r in trace_events(example()) if r["ph"] == "C"]
    assert {r["name"] for r in counters} >= {"allocated", "reserved", "launch queue"}
    assert max(r["args"]["bytes"] for r in counters if r["name"] == "allocated") == 5 << 20


def test_ranks_are_processes_of_their_own():
    one = simulate(costed([call(kernel(5))])).timeline
    lanes = tuple(replace(lane, rank=r) for r in (0, 1) for lane in one.lanes)
    e = one.events
    both = replace(
        one,
        lanes=lanes,
        events=type(e)(
            **{
                name: np.concatenate(
                    (getattr(e, name), getattr(e, name) + (len(one.lanes) * (name == "lane")))
                )
                for name in type(e).__slots__
            }
        ),
        steps=(*one.steps, replace(one.steps[0], rank=1)),
    )
    records = list(trace_events(both))
    _, flows = check_rules(records)
    assert len(flows) == 2
    assert len({r["pid"] for r in records if r["ph"] == "X"}) == 4


def test_measured_events_without_a_kernel_make_nothing_up():
    measured = replace(example(), kernels=(), ops=(), origin="measured", messages=None)
    work = [r for r in trace_events(measured) if r["ph"] == "X" and "args" in r]
    assert work
    assert all(set(r["args"]) <= {"correlation"} for r in work)


def test_gzip_by_suffix_and_equal_bytes(tmp_path: Path):
    first, second, plain = (tmp_path / n for n in ("a.json.gz", "b.json.gz", "c.json"))
    for path in (first, second, plain):
        write_chrome_trace(example(), path)
    assert first.read_bytes() == second.read_bytes()
    assert gzip.decompress(first.read_bytes()) == plain.read_bytes()


def test_a_failed_write_leaves_nothing(tmp_path: Path):
    bad = replace(example(), counters=(Counter("x", "1", np.array([0]), np.array([object()])),))
    target = tmp_path / "trace.json"
    target.write_text("before")
    with pytest.raises(TypeError):
        write_chrome_trace(bad, target)
    assert [p.name for p in tmp_path.iterdir()] == ["trace.json"]
    assert target.read_text() == "before"


def test_says_where_it_cannot_write(tmp_path: Path):
    with pytest.raises(InputFileError, match="Cannot write"):
        write_chrome_trace(example(), tmp_path / "missing" / "trace.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(InputFileError, match="is a folder"):
        write_chrome_trace(example(), tmp_path / "folder.json")
    assert [p.name for p in tmp_path.iterdir()] == ["folder.json"]


@given(
    st.lists(
        st.builds(
            lambda us, stream, lane, phase, sync: call(
                kernel(us, stream=stream, lane=lane), stream=stream, phase=phase, sync=sync
            ),
            st.integers(1, 40),
            st.integers(0, 2),
            st.sampled_from(["compute", "copy_d2h", "link"]),
            st.sampled_from(["forward", "backward"]),
            st.sampled_from(["", "", "item", "synchronize"]),
        ),
        max_size=10,
    ),
    st.booleans(),
)
@settings(max_examples=50, deadline=None)
def test_every_simulated_step_follows_the_format(ops, graph):
    check_rules(list(trace_events(simulate(costed(ops, graph=graph)).timeline)))


def trace_processor() -> str | None:
    named = os.environ.get("PERFETTO_TRACE_PROCESSOR")
    return named or shutil.which("trace_processor_shell") or shutil.which("trace_processor")


@pytest.mark.skipif(trace_processor() is None, reason="no trace_processor_shell binary here")
def test_the_trace_processor_reads_it(tmp_path: Path):
    perfetto = pytest.importorskip("perfetto.trace_processor")
    path = tmp_path / "trace.json"
    timeline = example()
    write_chrome_trace(timeline, path)
    config = perfetto.TraceProcessorConfig(bin_path=trace_processor())
    with perfetto.TraceProcessor(trace=str(path), config=config) as tp:
        (slices,) = tp.query("select count(*) as n from slice")
        assert slices.n == len(timeline.events) + 1
        (flow,) = tp.query("select count(*) as n from flow")
        assert flow.n == 6
        names = {row.name for row in tp.query("select name from thread where name is not null")}
        assert {lane.name for lane in timeline.lanes} <= names
        (errors,) = tp.query("select sum(value) as n from stats where severity = 'error'")
        assert not errors.n


def test_lanes_keep_their_order():
    timeline = example()
    order = {
        r["tid"]: r["args"]["sort_index"]
        for r in trace_events(timeline)
        if r["name"] == "thread_sort_index"
    }
    assert list(order) == sorted(order)
    assert len(order) == len(timeline.lanes)
    assert isinstance(timeline.lanes[0], Lane)
