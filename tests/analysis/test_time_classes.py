"""Exact times of a rank, and the causes of its idle time."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis.time_classes import rank_time, rank_times
from gpuscope.analysis.waits import LAUNCH_GAP_NS
from gpuscope.timeline.types import Timeline


def microseconds(idle: object) -> dict[str, float]:
    assert isinstance(idle, dict)
    return {cause: round(time * 1e6, 6) for cause, time in idle.items()}


def idle(timeline: Timeline) -> dict[str, float]:
    return microseconds(rank_time(timeline, 0).idle_by_cause)


def test_classes_of_a_rank() -> None:
    b = TimelineBuilder()
    b.work(0, 10)
    b.work(8, 20, kind="communication", stream="stream 20")
    b.work(15, 18)
    b.work(30, 40, kind="memcpy", stream="copy H2D")
    b.work(38, 42, kind="memset")
    time = rank_time(b.build(), 0)
    assert time.span_s == pytest.approx(42e-6)
    assert time.busy_s == pytest.approx(32e-6)
    assert time.idle_s == pytest.approx(10e-6)
    assert time.compute_s == pytest.approx(13e-6)
    assert time.communication_s == pytest.approx(12e-6)
    assert time.exposed_communication_s == pytest.approx(7e-6)
    assert time.copy_s == pytest.approx(12e-6)


def test_a_late_launch_is_the_host_dispatching() -> None:
    b = TimelineBuilder()
    b.work(0, 10, launch_us=-5)
    b.work(30, 40, launch_us=26)
    assert idle(b.build()) == {"host dispatching": 20}


def test_idle_after_a_wait_is_the_host_synchronising() -> None:
    b = TimelineBuilder()
    b.work(0, 10, launch_us=-5)
    b.host(-3, 12, kind="sync", name="item")
    b.work(30, 40, launch_us=26)
    # The wait cost the host 13 us of lead and stood for 2 us more; the rest is the host's own.
    assert idle(b.build()) == {"host synchronising": 15, "host dispatching": 5}


def test_a_long_wait_is_at_fault_for_the_gaps_that_follow() -> None:
    b = TimelineBuilder()
    b.work(0, 40, launch_us=-5)
    b.host(-3, 40, kind="sync", name="item")
    b.work(50, 52, launch_us=48)
    b.host(50, 51, kind="sync", name="nothing to wait for")
    b.work(60, 62, launch_us=58)
    assert idle(b.build()) == {"host synchronising": 18}


def test_a_blocking_copy_is_a_wait() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 30, launch_us=-5)
    b.copy(30, 40, call_us=(2, 42), name="Memcpy DtoH (Device -> Pageable)")
    b.work(60, 70, launch_us=57)
    assert idle(b.build()) == {"host synchronising": 20}


def test_a_long_wait_beside_an_idle_device_is_not_explained() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-5)
    b.host(20, 520, kind="sync", name="hipMemcpyWithStream")
    b.work(530, 540, launch_us=526)
    assert idle(b.build()) == {"unknown": 500, "host dispatching": 20}


def test_a_call_that_frees_memory_waits_and_then_works_itself() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 30, launch_us=-5)
    b.host(10, 100, kind="other", name="cudaFree")
    b.work(110, 120, launch_us=106)
    assert idle(b.build()) == {"host synchronising": 20, "host dispatching": 60}


def test_code_loaded_in_the_launch_call_is_the_host_dispatching() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-5)
    b.copy(60, 70, call_us=(5, 58), kind="kernel", name="first of its kind")
    assert idle(b.build()) == {"host dispatching": 50}


def test_a_collective_of_the_host_waits_for_another_rank() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-5)
    b.host(10, 35, name="gloo:all_reduce")
    b.work(40, 50, launch_us=38)
    assert idle(b.build()) == {"waiting for another rank": 25, "host dispatching": 5}


def test_a_wait_that_begins_in_the_gap_counts_for_its_own_length() -> None:
    b = TimelineBuilder()
    b.work(0, 10, launch_us=-5)
    b.host(14, 17, kind="sync", name="synchronize")
    b.work(30, 40, launch_us=26)
    assert idle(b.build()) == {"host synchronising": 3, "host dispatching": 17}


def test_a_short_gap_between_queued_kernels_is_a_launch_gap() -> None:
    b = TimelineBuilder()
    b.work(0, 10, launch_us=-5)
    b.work(11.5, 20, launch_us=-3)
    assert idle(b.build()) == {"launch gap": 1.5}


def test_a_long_gap_before_a_launched_kernel_waits_for_its_other_stream() -> None:
    b = TimelineBuilder()
    b.work(0, 10, launch_us=-5, stream="stream 20")
    b.work(30, 40, launch_us=-3)
    limit = LAUNCH_GAP_NS / 1000
    assert idle(b.build()) == {"launch gap": limit, "waiting for another stream": 20 - limit}


def test_a_long_gap_on_one_stream_is_unknown() -> None:
    b = TimelineBuilder()
    b.work(0, 10, launch_us=-5)
    b.work(30, 40, launch_us=-3)
    limit = LAUNCH_GAP_NS / 1000
    assert idle(b.build()) == {"launch gap": limit, "unknown": 20 - limit}


def test_a_data_loader_in_the_gap_is_waiting_for_data() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-5)
    b.host(-2, 11, kind="sync", name="cudaStreamSynchronize")
    b.host(12, 32, name="enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__")
    b.work(40, 50, launch_us=36)
    assert idle(b.build()) == {"waiting for data": 20, "host synchronising": 10}


def test_a_gap_that_ends_with_the_input_copy_is_waiting_for_data() -> None:
    b = TimelineBuilder()
    copy = b.op("aten::_to_copy", phase="input")
    b.work(0, 10, launch_us=-5)
    b.work(30, 35, launch_us=28, kind="memcpy", stream="copy H2D", op=copy)
    assert idle(b.build()) == {"waiting for data": 20}


def test_a_short_upload_of_a_recorded_run_brings_no_data() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-5)
    b.work(30, 32, launch_us=28, kind="memcpy", name="Memcpy HtoD (Pageable -> Device)")
    b.work(60, 90, launch_us=58, kind="memcpy", name="Memcpy HtoD (Pageable -> Device)")
    # The call itself, 1 us of it in the second gap, is the host dispatching.
    assert idle(b.build()) == {"host dispatching": 21, "waiting for data": 27}


def test_without_a_launch_the_cause_is_unknown() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10)
    b.work(30, 40)
    assert idle(b.build()) == {"unknown": 20}


def test_every_rank_has_its_own_times() -> None:
    b = TimelineBuilder()
    b.work(0, 10, rank=0)
    b.work(5, 25, rank=1)
    times = rank_times(b.build())
    assert {rank: time.busy_s for rank, time in times.items()} == pytest.approx(
        {0: 10e-6, 1: 20e-6}
    )


@given(
    st.lists(
        st.tuples(
            st.integers(0, 300),
            st.integers(1, 30),
            st.sampled_from(["kernel", "communication", "memcpy", "memset"]),
            st.integers(1, 100),
        ),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 50)), max_size=4),
)
def test_busy_and_causes_add_up_to_the_span(
    works: list[tuple[int, int, str, int]], syncs: list[tuple[int, int]]
) -> None:
    b = TimelineBuilder()
    for start, length, kind, lead in works:
        b.work(start, start + length, kind=kind, launch_us=start - lead)
    for start, length in syncs:
        b.host(start, start + length, kind="sync", name="item")
    time = rank_time(b.build(), 0)
    assert time.busy_s + time.idle_s == pytest.approx(time.span_s, abs=1e-15)
    assert sum(time.idle_by_cause.values()) == pytest.approx(time.idle_s, abs=1e-15)
    assert all(value > 0 for value in time.idle_by_cause.values())
    assert time.exposed_communication_s <= time.communication_s + 1e-15


def test_a_launch_that_comes_too_late_to_be_in_time_is_the_host_dispatching() -> None:
    b = TimelineBuilder()
    for i in range(20):
        # Kernels of 6 us, launched every 10 us; each starts 5 us after its launch call.
        b.work(10 * i + 5, 10 * i + 11, launch_us=10 * i)
    # Every launch was made 1 us before the device fell idle: too late all the same.
    assert idle(b.build()) == {"host dispatching": 19 * 4}
