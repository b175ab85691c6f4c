"""Which call launched what, and which calls waited."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from builders import TimelineBuilder, with_sizes

from gpuscope.analysis.waits import (
    FULL_QUEUE,
    LAUNCH_GAP_NS,
    find_waits,
    launch_rows,
    launched_ns,
    least_wait_ns,
    synchronises,
)
from gpuscope.timeline.types import DEVICE_KINDS, Timeline


def named(timeline: Timeline, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[str]:
    return [timeline.names[i] for i in timeline.events.name[rows].tolist()]


def waits(b: TimelineBuilder) -> list[tuple[str, str]]:
    timeline = b.build()
    found = find_waits(timeline, 0, launch_rows(timeline))
    assert (found.done_ns > found.start_ns).all()
    assert (found.done_ns <= found.end_ns).all()
    return list(zip(named(timeline, found.event), named(timeline, found.target), strict=True))


def test_launches_are_joined_within_their_rank() -> None:
    b = TimelineBuilder()
    for rank in (0, 1):
        b.work(10, 20 + rank, launch_us=5, rank=rank, name=f"kernel {rank}")
        b.rows[-1] = (*b.rows[-1][:-1], 7)
        b.rows[-2] = (*b.rows[-2][:-1], 7)
    timeline = b.build()
    work = np.flatnonzero(timeline.events.kind < DEVICE_KINDS)
    calls = launch_rows(timeline)[work]
    lanes = timeline.events.lane
    assert [timeline.lanes[i].rank for i in lanes[calls].tolist()] == [
        timeline.lanes[i].rank for i in lanes[work].tolist()
    ]


def test_what_is_recorded_goes_before_correlation() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-5)
    b.work(20, 30, launch_us=15)
    timeline = with_sizes(b.build(), {})
    assert timeline.recorded is not None
    work = timeline.recorded.event
    first, second = launch_rows(timeline)[work].tolist()
    swapped = np.array([second, -1])
    timeline = replace(timeline, recorded=replace(timeline.recorded, launch=swapped))
    assert launch_rows(timeline)[work].tolist() == [second, second]
    assert first != second


def test_work_is_handed_over_at_the_end_of_a_long_call() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(20, 30, launch_us=5)
    b.copy(100, 110, call_us=(40, 90))
    b.copy(200, 210, call_us=(140, 230))
    timeline = b.build()
    work = np.flatnonzero(timeline.events.kind < DEVICE_KINDS)
    given = launched_ns(timeline.events, work, launch_rows(timeline)[work])
    assert (given / 1000).tolist() == [5, 90, 200]


def test_a_synchronisation_waits_for_the_last_work_that_ended_in_it() -> None:
    b = TimelineBuilder()
    b.work(0, 10, launch_us=-9, name="first")
    b.work(10, 20, launch_us=-8, name="second")
    b.host(5, 22, kind="sync", name="item")
    b.host(30, 33, kind="sync", name="nothing left")
    assert waits(b) == [("item", "second")]


def test_asking_and_telling_streams_to_wait_is_no_wait() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-9)
    b.host(8, 11, kind="sync", name="Stream Wait Event")
    b.host(8, 12, kind="sync", name="cudaEventQuery")
    assert waits(b) == []
    assert not synchronises(b.build()).any()


def test_synchronisations_drawn_on_a_stream_are_not_the_hosts() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-9)
    b._add(5, 12, "Stream Sync", "sync", b.lane("stream 7", "stream", 0))
    assert waits(b) == []


def test_a_copy_call_that_outlasts_its_copy_waited() -> None:
    b = TimelineBuilder(origin="measured")
    b.copy(30, 40, call_us=(0, 42), name="blocking")
    b.copy(130, 140, call_us=(100, 120), name="staged")
    b.copy(233, 234, call_us=(230, 236), name="short")
    assert waits(b) == [("cudaMemcpyAsync", "blocking")]


def test_freeing_memory_waits_for_all_work() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 40, launch_us=-9, name="long")
    b.host(10, 90, kind="other", name="cudaFree")
    assert waits(b) == [("cudaFree", "long")]
    b.work(80, 100, launch_us=9, name="goes on")
    assert waits(b) == []


def test_a_launch_into_a_full_queue_waits_for_room() -> None:
    b = TimelineBuilder(origin="measured")
    for i in range(FULL_QUEUE + 5):
        b.work(1000 + 30 * i, 1028 + 30 * i, launch_us=2 * i - 100, name=f"k{i}")
    b.copy(40_000, 40_010, call_us=(1010, 1100), kind="kernel", name="last")
    assert waits(b) == [("cudaMemcpyAsync", "k2")]


def test_a_slow_launch_into_a_short_queue_does_not_wait() -> None:
    b = TimelineBuilder(origin="measured")
    for i in range(20):
        b.work(1000 + 30 * i, 1028 + 30 * i, launch_us=2 * i - 100)
    b.copy(40_000, 40_010, call_us=(1010, 1100), kind="kernel", name="last")
    assert waits(b) == []


def test_nothing_waits_without_device_or_host() -> None:
    b = TimelineBuilder()
    assert waits(b) == []
    b.host(0, 10, kind="sync", name="item")
    assert waits(b) == []


def test_the_least_wait_is_the_first_percentile() -> None:
    random = np.random.default_rng(0)
    for count in (1, 2, 3, 50, 51, 101, 1000, 4321):
        waited = random.integers(-50, LAUNCH_GAP_NS, count)
        expected = max(0, int(np.percentile(waited, 1)))
        assert least_wait_ns(waited) == expected
    assert least_wait_ns(np.zeros(0, np.int64)) == 0
    assert least_wait_ns(np.full(9, 2 * LAUNCH_GAP_NS)) == LAUNCH_GAP_NS
