"""Launch behaviour on timelines counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from builders import TimelineBuilder, kernel
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis.launches import CURVE_POINTS, launches
from gpuscope.timeline.types import Step


def test_launches_into_an_empty_and_into_a_full_queue() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 40, launch_us=-4)
    b.work(40, 50, launch_us=10)
    b.work(50, 50.5, launch_us=12)
    b.work(70, 80, launch_us=66)
    found = launches(b.build(), 0)
    assert found is not None
    assert found.kernels == 4
    assert found.count == 4
    assert found.unlinked == 0
    assert found.rate_per_s == pytest.approx(4 / 84e-6)
    assert found.call_median_s == pytest.approx(1e-6)
    assert found.call_total_s == pytest.approx(4e-6)
    assert found.empty_share == pytest.approx(2 / 4)
    # 4, 30, 38 and 4 us from call to work.
    assert found.latency_median_s == pytest.approx(17e-6)
    assert found.latency_empty_median_s == pytest.approx(4e-6)
    assert found.short_kernels == 1
    assert found.short_share == pytest.approx(1 / 4)
    # Two wait from 12 to 40, one from 10 to 12 and 40 to 50 and 66 to 70 (and 0.0 before 0).
    assert found.queue_max == 2
    assert found.queue_mean == pytest.approx((2 * 28 + 2 + 10 + 4) / 80)
    assert len(found.queue_time_s) == len(found.queue_depth) == CURVE_POINTS
    assert found.graph_launches == 0
    assert found.kernels_per_graph is None
    assert [(t.thread, t.count) for t in found.threads] == [("host main", 4)]


def test_a_free_stream_is_no_free_device() -> None:
    """What waits for another stream's work does not tell how long the device takes to answer."""
    b = TimelineBuilder(origin="measured")
    b.work(0, 40, launch_us=-4)
    b.work(60, 100, launch_us=56)
    b.work(100, 120, launch_us=70, stream="stream 8")
    found = launches(b.build(), 0)
    assert found is not None
    assert found.empty_share == pytest.approx(1.0)
    assert found.latency_empty_median_s == pytest.approx(4e-6)


def test_what_the_step_before_left_keeps_the_device() -> None:
    b = TimelineBuilder()
    b.work(1000, 1040, launch_us=200)
    b.work(1050, 1060, launch_us=1046)
    b.steps.append(Step(1_000_000, 1_060_000))
    found = launches(b.build(), 0)
    assert found is not None
    assert found.empty_share == pytest.approx(1 / 2)
    assert found.latency_empty_median_s == pytest.approx(4e-6)


def test_calls_that_wait_for_room_in_a_full_queue_are_told() -> None:
    b = TimelineBuilder(origin="measured")
    for i in range(1200):
        b.work(10 * i, 10 * i + 10, launch_us=2 * i - 2400)
    start, _, *rest = b.rows[-2]
    b.rows[-2] = (start - 500_000, 500_000, *rest)
    found = launches(b.build(), 0)
    assert found is not None
    assert found.call_full_s == pytest.approx(500e-6)
    assert found.call_total_s == pytest.approx(500e-6 + 1199e-6)


def test_blocks_timed_as_wholes_have_no_calls_to_tell() -> None:
    b = TimelineBuilder()
    b.work(0, 40, launch_us=-4, cost=kernel(40.0, launches=114))
    assert launches(b.build(), 0) is None


def test_a_graph_launch_brings_many_kernels() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-4)
    b.rows[-2] = (*b.rows[-2][:2], b.name("cudaGraphLaunch"), *b.rows[-2][3:])
    for i in range(1, 6):
        b.work(10 * i, 10 * i + 9)
        b.rows[-1] = (*b.rows[-1][:-1], 0)
    b.work(70, 80, launch_us=66)
    found = launches(b.build(), 0)
    assert found is not None
    assert found.graph_launches == 1
    assert found.kernels_per_graph == pytest.approx(6)
    assert found.unlinked == 0


def test_work_without_a_launch_is_told() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-4)
    b.work(20, 30)
    found = launches(b.build(), 0)
    assert found is not None
    assert found.unlinked == 1
    assert found.count == 1


def test_nothing_launched_is_nothing_to_say() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10)
    assert launches(b.build(), 0) is None
    assert launches(TimelineBuilder().build(), 0) is None


def test_figures_are_of_one_step() -> None:
    b = TimelineBuilder(origin="measured")
    for i in range(4):
        b.work(10 * i, 10 * i + 5, launch_us=10 * i - 2)
        b.step(10 * i - 2, 10 * i + 8)
    found = launches(b.build(), 0)
    assert found is not None
    assert (found.count, found.kernels) == (1, 1)
    assert found.rate_per_s == pytest.approx(1e5)
    assert found.call_total_s == pytest.approx(1e-6)


@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.integers(1, 20), st.integers(1, 60)),
        min_size=1,
        max_size=15,
    )
)
def test_the_queue_against_counting_every_nanosecond(works: list[tuple[int, int, int]]) -> None:
    b = TimelineBuilder(origin="measured")
    for start, length, lead in works:
        b.work(start / 1e3, (start + length) / 1e3, launch_us=(start - lead) / 1e3)
    found = launches(b.build(), 0)
    assert found is not None
    low, high = min(w[0] for w in works), max(w[0] + w[1] for w in works)
    depth = np.zeros(high - low)
    for start, _, lead in works:
        depth[max(start - lead, low) - low : start - low] += 1
    assert found.queue_mean == pytest.approx(depth.mean())
    assert found.queue_max == depth.max()
    assert len(found.queue_depth) == min(CURVE_POINTS, high - low)
    if high - low <= CURVE_POINTS:
        assert list(found.queue_depth) == depth.tolist()
