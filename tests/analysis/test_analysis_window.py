"""The analysed window, and device time attributed once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from builders import TimelineBuilder, with_sizes
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis.waits import launch_rows
from gpuscope.analysis.window import (
    COMMUNICATION,
    KERNEL,
    MEMCPY,
    MEMSET,
    Window,
    attribute,
    choose_window,
    device_ranks,
    device_work,
    host_window,
    marked_steps,
)
from gpuscope.timeline.types import Timeline

PRIORITY = (KERNEL, COMMUNICATION, MEMCPY, MEMSET)


def slow_attribution(events: list[tuple[int, int, int]]) -> list[int]:
    """Ask, nanosecond by nanosecond, which running event has the best claim."""
    shares = [0] * len(events)
    for now in range(max((s + d for s, d, _ in events), default=0)):
        running = [i for i, (s, d, _) in enumerate(events) if s <= now < s + d]
        if running:
            shares[min(running, key=lambda i: (PRIORITY.index(events[i][2]), i))] += 1
    return shares


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 15), st.sampled_from(PRIORITY)), max_size=9
    )
)
def test_attribution_equals_the_obvious_rule(events: list[tuple[int, int, int]]) -> None:
    events = sorted(events, key=lambda event: event[0])
    start = np.array([s for s, _, _ in events], np.int64)
    end = start + np.array([d for _, d, _ in events], np.int64)
    kind = np.array([k for _, _, k in events], np.int64)
    assert attribute(start, end, kind).tolist() == slow_attribution(events)


def test_a_collective_under_a_kernel_gets_only_its_exposed_part() -> None:
    b = TimelineBuilder()
    b.work(0, 10)
    b.work(5, 25, kind="communication", stream="stream 20")
    b.work(20, 40, kind="memcpy", stream="copy H2D")
    b.work(38, 50)
    work = device_work(b.build(), 0, Window(0, 50_000, 1))
    assert work.attributed_ns.tolist() == [10_000, 15_000, 13_000, 12_000]
    assert work.attributed_ns.sum() == work.busy.total_ns == 50_000


def test_the_window_is_the_device_span_without_steps() -> None:
    b = TimelineBuilder()
    b.work(3, 5, launch_us=0)
    b.work(7, 9)
    assert choose_window(b.build(), 0) == Window(3_000, 9_000, 1)


def test_several_steps_make_one_window() -> None:
    b = TimelineBuilder()
    b.work(3, 5)
    b.work(13, 15)
    b.step(0, 10)
    b.step(10, 20)
    assert choose_window(b.build(), 0) == Window(0, 20_000, 2)


def test_device_work_that_runs_behind_the_host_moves_the_window() -> None:
    b = TimelineBuilder()
    b.work(8, 12, launch_us=2)
    b.step(0, 10)
    assert choose_window(b.build(), 0) == Window(8_000, 18_000, 1)


def test_no_work_and_no_step_has_no_window() -> None:
    assert choose_window(TimelineBuilder().build(), 0) is None


def test_work_is_cut_at_the_window() -> None:
    b = TimelineBuilder()
    b.work(0, 10)
    b.work(15, 30)
    b.work(40, 50)
    work = device_work(b.build(), 0, Window(5_000, 20_000, 1))
    assert work.attributed_ns.tolist() == [5_000, 5_000]


def test_ranks_with_device_work_only() -> None:
    b = TimelineBuilder()
    b.work(0, 1, rank=3)
    b.work(0, 1, rank=1)
    b.host(0, 1, rank=0)
    assert device_ranks(b.build()) == (1, 3)


def behind(lag_us: float) -> Timeline:
    """Three steps of 10 us on the host; the device needs `lag_us` for each."""
    b = TimelineBuilder(origin="measured")
    for i in range(3):
        b.step(10 * i, 10 * i + 10)
        b.work(4 + lag_us * i, 4 + lag_us * (i + 1), launch_us=10 * i + 1)
    timeline = with_sizes(b.build(), {})
    assert timeline.recorded is not None
    launch = launch_rows(timeline)[timeline.recorded.event]
    return replace(timeline, recorded=replace(timeline.recorded, launch=launch))


def test_steps_of_a_device_that_runs_far_behind_are_its_own() -> None:
    timeline = behind(100)
    assert [(s.start_ns, s.end_ns) for s in marked_steps(timeline, 0)] == [
        (4_000, 104_000),
        (104_000, 204_000),
        (204_000, 304_000),
    ]
    assert choose_window(timeline, 0) == Window(4_000, 304_000, 3)
    assert host_window(timeline, 0, Window(4_000, 304_000, 3)) == Window(0, 30_000, 3)


def test_a_device_that_keeps_up_has_the_hosts_steps() -> None:
    timeline = behind(9)
    assert marked_steps(timeline, 0) == timeline.steps
    assert choose_window(timeline, 0) == Window(0, 30_000, 3)


def test_marks_stay_where_no_launch_is_known() -> None:
    timeline = behind(100)
    assert timeline.recorded is not None
    unknown = np.full(3, -1, np.int64)
    timeline = replace(timeline, recorded=replace(timeline.recorded, launch=unknown))
    assert marked_steps(timeline, 0) == timeline.steps
