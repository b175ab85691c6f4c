"""The critical path on timelines whose chain is known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from builders import TimelineBuilder, streaming
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis.critical_path import PATH_KINDS, CriticalPath, critical_path, last_arrivals
from gpuscope.analysis.window import COMMUNICATION, Window, choose_window
from gpuscope.timeline.types import Timeline


def path(data: Timeline, rank: int = 0, window: Window | None = None) -> CriticalPath:
    window = window or choose_window(data, rank)
    assert window is not None
    found = critical_path(data, rank, window)
    assert found is not None
    return found


def chain(found: CriticalPath) -> list[tuple[str, str, float, float]]:
    """Kind, name, begin and end in microseconds of each segment."""
    edges = [*found.segment_start_ns, found.end_ns]
    return [
        (PATH_KINDS[kind], found.names[name], edges[i] / 1e3, edges[i + 1] / 1e3)
        for i, (kind, name) in enumerate(zip(found.segment_kind, found.segment_name, strict=True))
    ]


def test_a_late_launch_leads_to_the_host() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-5, name="first")
    b.host(12, 30, name="aten::slow")
    b.work(35, 45, launch_us=31, name="second")
    assert chain(path(b.build())) == [
        ("python", "", 0, 12),
        ("host operator", "aten::slow", 12, 30),
        ("python", "", 30, 31),
        ("host call", "launch", 31, 32),
        ("launch latency", "second", 32, 35),
        ("kernel", "second", 35, 45),
    ]


def test_a_full_queue_leads_along_the_stream() -> None:
    b = TimelineBuilder(origin="measured")
    for i in range(3):
        b.work(11 * i, 11 * i + 10, launch_us=i - 9, name=f"k{i}")
    found = path(b.build())
    assert chain(found) == [
        ("kernel", "k0", 0, 10),
        ("launch latency", "k1", 10, 11),
        ("kernel", "k1", 11, 21),
        ("launch latency", "k2", 21, 22),
        ("kernel", "k2", 22, 32),
    ]
    assert found.time_s == pytest.approx({"kernel": 30e-6, "launch latency": 2e-6})


def test_a_wait_leads_to_the_work_that_it_waited_for() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 40, launch_us=-5, name="long")
    b.host(-3, 42, kind="sync", name="cudaStreamSynchronize")
    b.host(43, 50, name="aten::add")
    b.work(55, 60, launch_us=51, name="short")
    assert chain(path(b.build())) == [
        ("kernel", "long", 0, 40),
        ("synchronising", "cudaStreamSynchronize", 40, 42),
        ("python", "", 42, 43),
        ("host operator", "aten::add", 43, 50),
        ("python", "", 50, 51),
        ("host call", "launch", 51, 52),
        ("launch latency", "short", 52, 55),
        ("kernel", "short", 55, 60),
    ]


def test_a_synchronisation_that_waits_for_nothing_stays_on_the_host() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 5, launch_us=-5, name="short")
    b.host(10, 14, kind="sync", name="cudaDeviceSynchronize")
    b.work(20, 25, launch_us=16, name="next")
    kinds = [segment[:2] for segment in chain(path(b.build()))]
    assert ("host call", "cudaDeviceSynchronize") in kinds
    assert ("kernel", "short") not in kinds


def test_a_stream_that_waits_leads_to_the_other_stream() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 5, launch_us=-9, name="before", stream="stream 20")
    b.work(0, 30, launch_us=-8, name="long", stream="stream 7")
    b.host(-6, -5, kind="other", name="cudaStreamWaitEvent")
    b.work(31, 40, launch_us=-4, name="joined", stream="stream 20")
    assert chain(path(b.build())) == [
        ("kernel", "long", 0, 30),
        ("launch latency", "joined", 30, 31),
        ("kernel", "joined", 31, 40),
    ]


def test_without_the_call_to_wait_a_gap_stays_unexplained() -> None:
    b = TimelineBuilder(origin="measured")
    b.host(-20, -19, kind="other", name="cudaStreamWaitEvent")
    b.work(0, 5, launch_us=-9, name="before", stream="stream 20")
    b.work(0, 30, launch_us=-8, name="long", stream="stream 7")
    b.work(31, 40, launch_us=-4, name="alone", stream="stream 20")
    assert chain(path(b.build())) == [
        ("kernel", "before", 0, 5),
        ("launch latency", "alone", 5, 15),
        ("unexplained", "alone", 15, 31),
        ("kernel", "alone", 31, 40),
    ]


def test_the_backward_pass_goes_to_its_thread_and_back() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(-10, -5, launch_us=-15, name="start")
    b.host(0, 20, name="aten::forward")
    autograd = b.lane("host autograd", "host", 0)
    b._add(25, 60, "autograd::backward", "operator", autograd)
    b._add(50, 51, "launch", "launch", autograd, correlation=77)
    b.host(64, 80, name="aten::step")
    b.work(85, 90, launch_us=81, name="end")
    found = chain(path(b.build()))
    assert [segment for segment in found if segment[2] >= 0] == [
        ("host operator", "aten::forward", 0, 20),
        ("handing over", "", 20, 25),
        ("host operator", "autograd::backward", 25, 50),
        ("host call", "launch", 50, 51),
        ("host operator", "autograd::backward", 51, 60),
        ("handing over", "", 60, 64),
        ("host operator", "aten::step", 64, 80),
        ("python", "", 80, 81),
        ("host call", "launch", 81, 82),
        ("launch latency", "end", 82, 85),
        ("kernel", "end", 85, 90),
    ]


def test_a_collective_leads_to_the_rank_that_came_last() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 50, kind="communication", name="ncclAllReduce", stream="stream 20", launch_us=-5)
    b.work(-9, 40, name="slow", launch_us=-15, rank=1)
    b.work(
        40, 50, kind="communication", name="ncclAllReduce", stream="stream 20", rank=1, launch_us=-6
    )
    data = b.build()
    rows = np.flatnonzero(data.events.kind == COMMUNICATION)
    last = last_arrivals(rows, np.zeros(2, np.int64), data.events.start_ns[rows], len(data.events))
    window = choose_window(data, 0)
    assert window is not None
    found = critical_path(data, 0, window, last=last)
    assert found is not None
    assert chain(found) == [("kernel", "slow", 0, 40), ("communication", "ncclAllReduce", 40, 50)]
    lanes = [data.lanes[lane].rank for lane in found.segment_lane]
    assert lanes == [1, 0]
    # Without the slow kernel 10 us of transfer stay; the 40 us of waiting are no work.
    assert found.gain_s["kernel"] == pytest.approx(40e-6)
    assert path(data).time_s == pytest.approx({"communication": 50e-6})


def test_a_pageable_copy_is_on_the_path_with_its_call() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 5, launch_us=-5, name="before")
    b.copy(60, 80, call_us=(10, 82), name="Memcpy HtoD (Pageable -> Device)")
    b.work(90, 95, launch_us=86, name="after")
    assert [segment[:2] for segment in chain(path(b.build()))] == [
        ("python", ""),
        ("host call", "cudaMemcpyAsync"),
        ("copy", "Memcpy HtoD (Pageable -> Device)"),
        ("synchronising", "cudaMemcpyAsync"),
        ("python", ""),
        ("host call", "launch"),
        ("launch latency", "after"),
        ("kernel", "after"),
    ]


def test_gains_are_bounded_by_the_other_chains() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 60, launch_us=-5, name="long")
    b.host(-3, 61, kind="sync", name="item")
    b.host(61, 91, name="aten::add")
    b.work(94, 100, launch_us=91, name="short")
    found = path(b.build())
    # Without kernels: 30 us of operators and a launch stay (66 us of kernels are on the path).
    assert found.gain_s["kernel"] == pytest.approx(66e-6)
    # Without the host: the stream's 66 us stay.
    assert found.gain_s["host"] == pytest.approx(34e-6)


def test_a_busy_device_gains_nothing_from_its_host() -> None:
    b = TimelineBuilder()
    b.chain([streaming(50), streaming(50)])
    found = path(b.build())
    assert "host" not in found.gain_s
    assert found.gain_s["kernel"] == pytest.approx(100e-6)


def test_seconds_are_of_one_step() -> None:
    b = TimelineBuilder(origin="measured")
    for i in range(4):
        b.work(10 * i, 10 * i + 10, launch_us=-9 + i)
        b.step(10 * i, 10 * i + 10)
    found = path(b.build())
    assert found.steps == 4
    assert found.time_s == pytest.approx({"kernel": 10e-6})


def test_no_device_work_has_no_path() -> None:
    b = TimelineBuilder(origin="measured")
    b.host(0, 50)
    assert critical_path(b.build(), 0, Window(0, 50_000, 1)) is None


def test_clocks_that_contradict_each_other_do_not_send_it_in_circles() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(10, 10, launch_us=40)  # of no length, and before its launch
    b.work(10, 10, launch_us=10)
    b.host(5, 10, kind="sync", name="item")
    b.host(0, 60, name="aten::op")
    b.work(50, 60, launch_us=55)
    assert sum(path(b.build()).time_s.values()) == pytest.approx(50e-6)


times = st.integers(-50, 300)


@given(
    st.lists(
        st.tuples(
            times,
            st.integers(0, 60),
            st.integers(-5, 120),
            st.sampled_from(["7", "20", "24"]),
            st.sampled_from(["kernel", "communication", "memcpy", "memset"]),
        ),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.tuples(times, st.integers(0, 90), st.booleans(), st.booleans()), max_size=8),
    st.lists(st.tuples(times, st.integers(1, 80)), max_size=2),
)
def test_segments_cover_the_window_once(
    works: list[tuple[int, int, int, str, str]],
    host: list[tuple[int, int, bool, bool]],
    steps: list[tuple[int, int]],
) -> None:
    b = TimelineBuilder(origin="measured")
    for start, length, lead, stream, kind in works:
        launch = None if lead == 0 else start - lead
        b.work(start, start + length, kind=kind, stream=f"stream {stream}", launch_us=launch)
    autograd = b.lane("host autograd", "host", 0)
    for start, length, waits, main in host:
        kind, name = ("sync", "item") if waits else ("operator", "aten::op")
        if main:
            b.host(start, start + length, kind=kind, name=name)
        else:
            b._add(start, start + length, name, kind, autograd)
    for start, length in sorted(steps):
        b.step(start, start + length)
    data = b.build()
    window = choose_window(data, 0)
    if window is None or window.length_ns == 0:
        return
    found = path(data)
    edges = [*found.segment_start_ns, found.end_ns]
    assert edges[0] == window.start_ns
    assert edges == sorted(set(edges))
    assert sum(found.time_s.values()) == pytest.approx(window.length_ns * 1e-9 / window.steps)
    assert sum(s.time_s for s in found.shares) == pytest.approx(sum(found.time_s.values()))
    for kind, gain in found.gain_s.items():
        assert gain <= window.length_ns * 1e-9 / window.steps * 1.000001
        assert kind == "host" or gain <= found.time_s[kind] * 1.000001


def test_a_thinned_path_still_covers_the_window() -> None:
    b = TimelineBuilder(origin="measured")
    now = 0.0
    for i in range(200):
        length = 50 if i % 20 == 0 else 2
        b.work(now, now + length, launch_us=-300 + i, name=f"k{i % 7}")
        now += length + 1
    data = b.build()
    full = path(data)
    window = Window(full.start_ns, full.end_ns, full.steps)
    thin = critical_path(data, 0, window, most=40)
    assert thin is not None
    assert len(full.segment_kind) == 399
    assert len(thin.segment_kind) <= 41
    assert len(thin.segment_kind) == len(thin.segment_name) == len(thin.segment_lane)
    assert (thin.time_s, thin.shares, thin.end_ns) == (full.time_s, full.shares, full.end_ns)
    assert set(thin.segment_start_ns) <= set(full.segment_start_ns)
    assert thin.segment_start_ns[0] == full.start_ns
    long = [segment for segment in chain(full) if segment[3] - segment[2] >= 50]
    assert set(long) <= set(chain(thin))
    assert critical_path(data, 0, window, most=399) == full
