"""A trace of which everything is known by hand, and the words of other recorders and years."""

from dataclasses import fields

import numpy as np
import pytest
import zstandard
from kineto_traces import HEADER, document, event, training, write

from gpuscope.program.types import Op
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.kineto.build import distinct_keys
from gpuscope.timeline.perfetto import write_chrome_trace
from gpuscope.timeline.types import EVENT_KINDS, Collective, Events, Step

KIND = {name: number for number, name in enumerate(EVENT_KINDS)}


@pytest.fixture
def timeline(tmp_path):
    return read_trace(write(tmp_path / "t.json", document()))


def rows(timeline, name):
    return [r for r, n in enumerate(timeline.events.name.tolist()) if timeline.names[n] == name]


def row(timeline, name):
    found = rows(timeline, name)
    assert len(found) == 1, name
    return found[0]


def recorded(timeline, name):
    """The row of `recorded` of a device event."""
    at = np.flatnonzero(timeline.recorded.event == row(timeline, name))
    assert len(at) == 1
    return int(at[0])


def op(timeline, name) -> Op:
    return timeline.ops[int(timeline.events.op[row(timeline, name)])]


def named(timeline, at):
    return timeline.names[int(timeline.events.name[at])] if at >= 0 else None


def test_kinds(timeline):
    def kind(name):
        return EVENT_KINDS[int(timeline.events.kind[row(timeline, name)])]

    assert kind("gemm") == "kernel"
    assert kind("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)") == "communication"
    assert kind("Memcpy HtoD (Pinned -> Device)") == "memcpy"
    assert kind("cudaMemcpyAsync") == "launch"
    assert kind("cuLaunchKernelEx") == "launch"
    assert kind("cudaDeviceSynchronize") == "sync"
    assert kind("Context Sync") == "sync"
    assert kind("nn.Module: Linear_0") == "module"
    assert kind("aten::addmm") == "operator"
    assert kind("Optimizer.step#SGD.step") == "other"
    assert not rows(timeline, "PyTorch Profiler (0)")


def test_times_are_exact_from_the_earliest_event(timeline):
    assert timeline.sources[0].base_ns == HEADER["baseTimeNanoseconds"] + 100_000
    gemm = row(timeline, "gemm")
    assert timeline.events.start_ns[gemm] == 200_001 - 100_000
    copy = row(timeline, "Memcpy HtoD (Pinned -> Device)")
    assert (timeline.events.start_ns[copy], timeline.events.duration_ns[copy]) == (25_250, 10_500)


def test_events_are_sorted_by_start_then_lane_the_longer_first(timeline):
    events = timeline.events
    keys = list(zip(events.start_ns, events.lane, -events.duration_ns, strict=True))
    assert keys == sorted(keys)


def test_lanes(timeline):
    lanes = {lane.name: (lane.kind, lane.rank, lane.device) for lane in timeline.lanes}
    assert lanes == {
        "host thread 1 (python)": ("host", 2, -1),
        "host thread 2 (pt_autograd_0)": ("host", 2, -1),
        "stream 7": ("stream", 2, 0),
        "stream 20": ("stream", 2, 0),
    }


def test_launch_and_operator_of_device_work(timeline):
    got = {
        named(timeline, e): (named(timeline, launch), named(timeline, operator))
        for e, launch, operator in zip(
            timeline.recorded.event,
            timeline.recorded.launch,
            timeline.recorded.operator,
            strict=True,
        )
    }
    assert got == {
        "Memcpy HtoD (Pinned -> Device)": ("cudaMemcpyAsync", "aten::copy_"),
        "gemm": ("cudaLaunchKernel", "aten::addmm"),
        "gemm_t": ("cuLaunchKernelEx", "aten::mm"),
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)": (
            "cudaLaunchKernelExC",
            "record_param_comms",
        ),
        "multi_tensor": ("cudaLaunchKernel", "aten::_foreach_add_"),
        "unlinked": (None, None),
    }


def test_what_is_recorded_of_a_kernel(timeline):
    r, at = timeline.recorded, recorded(timeline, "gemm")
    assert r.grid[at].tolist() == [2, 3, 1]
    assert r.block[at].tolist() == [128, 1, 1]
    assert (r.registers[at], r.shared_bytes[at], r.stream[at]) == (40, 1024, 7)
    assert r.occupancy[at] == 0.25
    assert (r.graph[at], r.nbytes[at]) == (-1, -1)
    copy = recorded(timeline, "Memcpy HtoD (Pinned -> Device)")
    assert r.nbytes[copy] == 4096
    assert np.isnan(r.occupancy[copy])
    assert r.grid[copy].tolist() == [-1, -1, -1]


def test_ops_have_shapes_phase_and_module(timeline):
    gemm = op(timeline, "gemm")
    assert (gemm.name, gemm.phase, gemm.module) == ("aten::addmm", "forward", "Net_0.Linear_0")
    assert [(t.shape, t.stride, t.dtype) for t in gemm.inputs] == [
        ((8, 4), (4, 1), "bfloat16"),
        ((4, 2), (1, 4), "bfloat16"),
    ]
    assert op(timeline, "gemm_t").phase == "backward"
    assert op(timeline, "gemm_t").module == "Net_0.Linear_0", "as the forward operator's"
    assert op(timeline, "multi_tensor").phase == "optimizer"
    assert op(timeline, "Memcpy HtoD (Pinned -> Device)").phase == "input"
    assert timeline.events.op[row(timeline, "unlinked")] == -1
    assert [entry.index for entry in timeline.ops] == list(range(len(timeline.ops)))


def test_collective_of_the_operator_that_launched_it(timeline):
    at = recorded(timeline, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)")
    assert timeline.collectives == (
        Collective("all_reduce", "0", 4, (0, 1, 2, 3), "bfloat16", 64, 64),
    )
    assert timeline.recorded.collective[at] == 0
    assert timeline.recorded.sequence[at] == 12
    assert (np.delete(timeline.recorded.collective, at) == -1).all()


def test_steps_and_counters(timeline):
    assert timeline.steps == (Step(0, 1_000_000, 2),)
    assert {c.name: (c.unit, c.time_ns.tolist(), c.value.tolist()) for c in timeline.counters} == {
        "allocated": ("bytes", [15_000], [512.0]),
        "reserved": ("bytes", [15_000], [2048.0]),
    }


def test_source(timeline, tmp_path):
    source = timeline.sources[0]
    assert (source.rank, source.rank_known, source.world_size) == (2, True, 4)
    assert (source.backend, source.host, source.schema) == ("nccl", "node-1", "1")
    assert source.groups == {"0": (0, 1, 2, 3)}
    assert source.devices[0].name == "NVIDIA H200"
    assert source.devices[0].sm_count == 132
    assert source.devices[0].compute_capability == (9, 0)
    assert source.devices[0].registers_per_sm is None
    assert (source.with_shapes, source.with_stacks, source.with_memory) == (True, True, True)
    assert (source.cut_off, source.events_skipped) == (False, 0)
    assert source.counts["kernel"] == 5
    assert source.events_read == sum(1 for e in training() if e["ph"] == "X")
    assert source.path == str(tmp_path / "t.json")


def equal(a, b):
    for field in fields(Events):
        assert np.array_equal(getattr(a.events, field.name), getattr(b.events, field.name))
    for field in fields(type(a.recorded)):
        x, y = getattr(a.recorded, field.name), getattr(b.recorded, field.name)
        assert np.array_equal(x, y, equal_nan=field.name == "occupancy"), field.name
    for name in ("names", "lanes", "steps", "ops", "collectives"):
        assert getattr(a, name) == getattr(b, name), name


def test_every_packing_reads_the_same(timeline, tmp_path):
    text = write(tmp_path / "a", document(), indent=2).read_bytes()
    packed = {
        "indented.json": text,
        "gzip-without-a-name-that-says-so": None,
        "zstd.json": zstandard.compress(text),
        "two-members.bin": None,
        "with-bom.json": b"\xef\xbb\xbf" + text,
    }
    import gzip

    packed["gzip-without-a-name-that-says-so"] = gzip.compress(text)
    packed["two-members.bin"] = gzip.compress(text[:999]) + gzip.compress(text[999:]) + b"\0" * 7
    for name, data in packed.items():
        path = tmp_path / name
        path.write_bytes(data)
        again = read_trace(path)
        equal(timeline, again)
        assert not again.sources[0].cut_off, name


def test_a_bare_list_is_a_trace(timeline, tmp_path):
    bare = read_trace(write(tmp_path / "list.json", training()), rank=2)
    equal(timeline, bare)
    assert (bare.sources[0].rank, bare.sources[0].rank_known) == (2, False)
    assert bare.sources[0].base_ns == 100_000


def test_the_rank_in_the_file_counts_before_the_one_given(tmp_path):
    path = write(tmp_path / "t.json", document())
    assert read_trace(path, rank=5).sources[0].rank == 2
    assert (
        read_trace(write(tmp_path / "u.json", document(training(), schemaVersion=1)), rank=5)
        .lanes[0]
        .rank
        == 5
    )


def test_the_words_of_2021(tmp_path):
    old = [
        event("Operator", "aten::mm", 1000, 100, tid="77"),
        {
            **event("Runtime", "cudaLaunchKernel", 1010, 10, tid=77),
            "args": {"correlation": 5, "external id": 3},
        },
        event(
            "Kernel",
            "volta_sgemm",
            1050,
            40,
            pid=0,
            tid="stream 7",
            correlation=5,
            device=0,
            stream=7,
        ),
        event("Memcpy", "Memcpy HtoD (Pageable -> Device)", 1100, 5, pid=0, tid="stream 7"),
        event("Memset", "Memset (Device)", 1110, 5, pid=0, tid="stream 7"),
        event("Operator", "ProfilerStep#1", 1000, 500, tid="77"),
    ]
    timeline = read_trace(write(tmp_path / "old.json", document(old, schemaVersion=1)))
    kinds = [EVENT_KINDS[k] for k in timeline.events.kind.tolist()]
    assert sorted(kinds) == ["kernel", "launch", "memcpy", "memset", "operator", "step"]
    assert [lane.name for lane in timeline.lanes if lane.kind == "stream"] == ["stream 7"]
    assert timeline.recorded.stream.tolist() == [7, 7, 7]
    assert len(timeline.steps) == 1


def test_amd_calls(tmp_path):
    amd = [
        event("cuda_runtime", "hipLaunchKernel", 10, 5, correlation=3, cid=211),
        event(
            "kernel",
            "Cijk_gemm",
            20,
            5,
            pid=2,
            tid=0,
            device=2,
            stream=0,
            correlation=3,
            kind="Dispatch Kernel",
        ),
        event("cuda_runtime", "hipMemcpyWithStream", 30, 20, correlation=4, cid=22),
        event(
            "gpu_memcpy",
            "Memcpy DtoH (Device -> Host)",
            40,
            5,
            pid=2,
            tid=0,
            device=2,
            stream=0,
            correlation=4,
            kind="CopyDeviceToHost",
        ),
        event("cuda_runtime", "hipGraphLaunch", 60, 5, correlation=9),
        event("kernel", "decode", 70, 5, pid=2, tid=0, device=2, stream=0, correlation=9),
    ]
    timeline = read_trace(write(tmp_path / "amd.json", document(amd, schemaVersion=1)))

    def kind(name):
        return EVENT_KINDS[int(timeline.events.kind[row(timeline, name)])]

    assert kind("hipLaunchKernel") == "launch"
    assert kind("hipMemcpyWithStream") == "sync"
    assert (timeline.recorded.launch >= 0).all()
    assert timeline.recorded.graph[recorded(timeline, "decode")] == 0
    assert timeline.recorded.graph[recorded(timeline, "Cijk_gemm")] == -1
    assert {lane.device for lane in timeline.lanes if lane.kind == "stream"} == {2}


def test_mtia_waits_are_no_work(tmp_path):
    mtia = [
        event("mtia_ccp_events", "pe_exe", 0, 10, pid=17, tid=3910, stream=112),
        event("mtia_ccp_events", "event_wait", 0, 90, pid=17, tid=3910, stream=112),
        event(
            "mtia_ccp_events",
            "dma_request",
            20,
            10,
            pid=17,
            tid=3910,
            stream=112,
            size=64,
            correlation=5,
        ),
        event("mtia_runtime", "enqueueCommand memcpyHtoDAsync", 5, 2, correlation=5),
    ]
    timeline = read_trace(write(tmp_path / "m.json", document(mtia, schemaVersion=1)))
    kinds = {named(timeline, r): EVENT_KINDS[timeline.events.kind[r]] for r in range(4)}
    assert kinds == {
        "pe_exe": "kernel",
        "event_wait": "sync",
        "dma_request": "memcpy",
        "enqueueCommand memcpyHtoDAsync": "launch",
    }
    assert timeline.recorded.nbytes.tolist() == [-1, 64]


def test_a_stream_argument_makes_no_device_work_of_an_operator(tmp_path):
    triton = [
        event("cpu_op", "triton_poi_fused_add_0", 0, 10, stream=7, grid="grid(1,)"),
        event("kernel", "triton_poi_fused_add_0", 20, 5, pid=0, tid=7, device=0, stream=7),
    ]
    timeline = read_trace(write(tmp_path / "t.json", document(triton, schemaVersion=1)))
    assert timeline.recorded.event.tolist() == [1]
    assert timeline.lanes[int(timeline.events.lane[0])].kind == "host"


def test_module_marks_hold_whole_paths(tmp_path):
    marks = [
        event("user_annotation", "gpuscope.step", 0, 100),
        event("user_annotation", "gpuscope.step", 100, 100),
        event("user_annotation", "ProfilerStep#0", 0, 220),
        event("user_annotation", "gpuscope.module:", 5, 50),
        event("user_annotation", "gpuscope.module:layers.0.fc", 10, 30),
        event("cpu_op", "aten::mm", 15, 10),
        event("cpu_op", "aten::add", 45, 5),
    ]
    timeline = read_trace(write(tmp_path / "t.json", document(marks, schemaVersion=1)))
    modules = {entry.name: entry.module for entry in timeline.ops}
    assert modules == {"aten::mm": "layers.0.fc", "aten::add": ""}
    assert [(s.start_ns, s.end_ns) for s in timeline.steps] == [(0, 100_000), (100_000, 200_000)]


def test_equal_calls_share_an_op(tmp_path):
    def mm(ts, shape):
        args = {"Input Dims": [shape], "Input type": ["float"]}
        return {**event("cpu_op", "aten::mm", ts, 1), "args": {**args, "External id": ts}}

    calls = [mm(0, [2, 3]), mm(10, [2, 3]), mm(20, [4, 3])]
    timeline = read_trace(write(tmp_path / "t.json", document(calls, schemaVersion=1)))
    assert timeline.events.op.tolist() == [0, 0, 1]
    assert [entry.inputs[0].shape for entry in timeline.ops] == [(2, 3), (4, 3)]
    assert timeline.ops[0].inputs[0].stride == (3, 1)


def test_counters_of_the_file(tmp_path):
    points = [
        {"ph": "C", "name": "GPU 0 Util", "pid": 0, "tid": 0, "ts": t, "args": {"value": v}}
        for t, v in ((5, 1.5), (2, 3))
    ]
    listed = [event("cpu_op", "a", 1, 1), *points]
    timeline = read_trace(write(tmp_path / "t.json", document(listed, schemaVersion=1)))
    counter = timeline.counters[0]
    assert (counter.name, counter.unit) == ("GPU 0 Util value", "")
    assert (counter.time_ns.tolist(), counter.value.tolist()) == ([1000, 4000], [3.0, 1.5])


def test_own_files_are_read_back(tmp_path, timeline):
    path = tmp_path / "own.json.gz"
    write_chrome_trace(timeline, path, name="x")
    again = read_trace(path)
    for field in ("start_ns", "duration_ns", "name", "kind", "lane", "correlation"):
        got, wanted = getattr(again.events, field), getattr(timeline.events, field)
        if field == "name":
            texts = [again.names[n] for n in got.tolist()]
            assert texts == [timeline.names[n] for n in wanted.tolist()]
        else:
            assert np.array_equal(got, wanted), field
    assert again.steps == timeline.steps
    assert [lane.name for lane in again.lanes] == [lane.name for lane in timeline.lanes]
    assert [lane.rank for lane in again.lanes] == [lane.rank for lane in timeline.lanes]

    def calls(t):
        found = [t.ops[n] if n >= 0 else None for n in t.events.op.tolist()]
        return [o and (o.name, o.module, o.phase) for o in found]

    assert calls(again) == calls(timeline)
    assert again.sources[0].format == "gpuscope"
    assert again.recorded.stream.tolist() == timeline.recorded.stream.tolist()


def test_own_predictions_are_read_back(tmp_path):
    from test_perfetto import example

    predicted = example()
    path = tmp_path / "own.json"
    write_chrome_trace(predicted, path)
    again = read_trace(path)
    assert np.array_equal(again.events.start_ns, predicted.events.start_ns)
    assert np.array_equal(again.events.kind, predicted.events.kind)
    assert again.steps == predicted.steps
    # Counters that follow from events are written beside the timeline's own.
    read = {c.name: c.value.tolist() for c in again.counters}
    own = {c.name: c.value.tolist() for c in predicted.counters}
    assert {name: read[name] for name in own} == own


@pytest.mark.parametrize("bound", [1, 50, 1 << 16, (1 << 16) + 1, 1 << 40])
def test_distinct_keys_are_those_of_numpy(bound):
    keys = np.random.default_rng(1).integers(0, bound, 300)
    expected, at = np.unique(keys, return_inverse=True)
    found, inverse = distinct_keys(keys, bound)
    assert found.tolist() == expected.tolist()
    assert inverse.tolist() == at.tolist()
