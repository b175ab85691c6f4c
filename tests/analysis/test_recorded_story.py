"""Idle time, critical path, launches and copies of real recordings, where they are at hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gpuscope.analysis import Analysis, analyze
from gpuscope.analysis.columns import OpColumns
from gpuscope.analysis.critical_path import critical_path
from gpuscope.analysis.found_steps import with_steps
from gpuscope.analysis.host_activity import Hosts
from gpuscope.analysis.idle import causes_of, idle_pieces
from gpuscope.analysis.window import Window, choose_window, device_ranks, device_work
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.types import Timeline

TRACES = Path(__file__).parents[3] / "shared" / "traces"

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="no recordings beside the repository")

RESNET = "kineto_tb_samples/resnet50_num_workers_{}"


@cache
def read(place: str) -> Timeline:
    (file,) = sorted((TRACES / place).parent.glob(f"{Path(place).name}/*.gz")) or [TRACES / place]
    return read_trace(file)


@cache
def story(place: str) -> Analysis:
    return analyze(read(place))


def kinds(place: str) -> set[str]:
    return {finding.kind for finding in story(place).findings}


def all_places() -> list[str]:
    found = sorted(TRACES.rglob("*.json.gz"))
    return [str(path.relative_to(TRACES)) for path in found if path.stat().st_size < 800_000]


@pytest.mark.parametrize("place", all_places())
def test_idle_time_and_path_add_up_to_the_nanosecond(place: str) -> None:
    timeline = with_steps(read(place))
    for rank in device_ranks(timeline):
        window = choose_window(timeline, rank)
        assert window is not None
        ops = OpColumns.of(timeline)
        hosts = Hosts(timeline, ops)
        work = device_work(timeline, rank, window)
        pieces = idle_pieces(timeline, work, hosts(rank), ops)
        idle = window.length_ns - work.busy.total_ns
        assert sum(causes_of(pieces).values()) == int(pieces.length_ns.sum()) == idle
        assert (pieces.length_ns > 0).all()
        path = critical_path(timeline, rank, window, hosts=hosts)
        assert path is not None
        edges = np.array([*path.segment_start_ns, path.end_ns])
        assert (np.diff(edges) > 0).all()
        assert (edges[0], edges[-1]) == (window.start_ns, window.end_ns)
        found = analyze(timeline)
        assert sum(spot.time_s for spot in found.idle_spots) == pytest.approx(
            idle * 1e-9 / window.steps
        )


def test_without_loader_workers_the_input_is_what_holds_it_up() -> None:
    slow = story(RESNET.format(0))
    assert slow.findings[0].kind == "input_bound"
    assert "DataLoader" in slow.findings[0].evidence
    assert slow.idle_spots[0].cause == "waiting for data"
    assert slow.critical_path is not None
    assert next(iter(slow.critical_path.time_s)) == "loading input"


def test_with_loader_workers_it_is_the_host_and_its_pageable_copies() -> None:
    assert {"host_bound", "pageable_copies"} <= kinds(RESNET.format(4))
    assert "input_bound" not in kinds(RESNET.format(4))
    (upload,) = story(RESNET.format(4)).copies
    # 32 images of 3 x 224 x 224 float32 and their labels.
    assert (upload.direction, upload.memory, upload.count) == ("host to device", "pageable", 2)
    assert upload.largest_bytes == 32 * 3 * 224 * 224 * 4
    assert upload.total_bytes == 32 * 3 * 224 * 224 * 4 + 32 * 8


@pytest.mark.parametrize(
    "place",
    [
        "tracelens/inference/vllm_decode_full/graph_execution.json.gz",
        "tracelens/torch_compile_triton/trace.json.gz",
    ],
)
def test_a_busy_device_is_not_told_to_be_busier(place: str) -> None:
    unwanted = {"host_bound", "input_bound", "sync_bound", "launch_bound", "pageable_copies"}
    assert not kinds(place) & unwanted
    found = story(place)
    assert found.critical_path is not None
    assert found.critical_path.gain_s.get("host", 0) < 0.01 * found.step_s


def test_a_graph_launch_brings_the_decode_step() -> None:
    launches = story("tracelens/inference/vllm_decode_full/graph_execution.json.gz").launches
    assert launches is not None
    assert launches.graph_launches == 1
    assert launches.kernels_per_graph == 421


def test_memory_calls_of_a_switched_off_allocator_are_named() -> None:
    found = story("tracelens/mi300/ddp_resnet18_no_pool/train_resnet18.json.gz")
    (host,) = (finding for finding in found.findings if finding.kind == "host_bound")
    assert "hipFree" in host.evidence
    assert "caching allocator" in host.hint


def test_a_long_wait_for_something_unrecorded_is_unknown() -> None:
    place = "tracelens/inference/sglang_decode/sglang_Qwen3-8B_decode.json.gz"
    first = story(place).idle_spots[0]
    assert (first.cause, first.what) == ("unknown", "hipMemcpyWithStream")
    assert "sync_bound" not in kinds(place)
    assert "host_bound" not in kinds(place)


def test_the_path_goes_through_the_kernel_that_an_event_waits_for() -> None:
    path = story("hta/critical_path_cuda_event_sync/event_sync_trace.json.gz").critical_path
    assert path is not None
    (spin,) = (s for s in path.shares if "spin_kernel" in s.name and s.kind == "kernel")
    assert spin.time_s == pytest.approx(36e-6)


def test_warm_up_is_seen_for_what_it_is() -> None:
    path = story(
        "hta/critical_path_alexnet/benchmark_result_2869224_1695835535_trace.json.gz"
    ).critical_path
    assert path is not None
    assert path.shares[0].name == "cudaFree"
    assert path.shares[0].time_s == pytest.approx(6.535, abs=0.01)


def test_the_path_of_one_forward_pass_as_others_find_it() -> None:
    """HolisticTraceAnalysis 0.5 finds 3,712 us of kernels and the same cudaMalloc calls on it.

    It begins at the annotation and ends with the device; the cuFFT kernels of another stream are
    on it because the main stream was told to wait for them.
    """
    timeline = read("hta/critical_path_alexnet/benchmark_result_2869224_1695835535_trace.json.gz")
    events = timeline.events
    measured = [i for i, name in enumerate(timeline.names) if name.endswith("measure|forward]")]
    hosts = np.array([lane.kind == "host" for lane in timeline.lanes])
    marks = np.flatnonzero(np.isin(events.name, measured) & hosts[events.lane])
    last = int(marks[-1])
    window = Window(int(events.start_ns[last]), int(events.end_ns[last]), 1)
    path = critical_path(timeline, 0, window)
    assert path is not None
    assert path.time_s["kernel"] == pytest.approx(3_712e-6, rel=0.01)
    malloc = sum(share.time_s for share in path.shares if share.name == "cudaMalloc")
    assert malloc == pytest.approx(31_525e-6, rel=0.001)
    by_name = {share.name: share for share in path.shares if share.kind == "kernel"}
    assert by_name["ampere_gcgemm_64x64_nt"].time_s == pytest.approx(323e-6)
