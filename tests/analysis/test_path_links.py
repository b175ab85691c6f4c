"""What held device work back, and where threads hand over."""

from __future__ import annotations

from builders import TimelineBuilder

from gpuscope.analysis.columns import OpColumns
from gpuscope.analysis.host_activity import host_activity
from gpuscope.analysis.path_links import (
    LAUNCHED,
    NOTHING,
    QUEUE,
    STREAM,
    device_links,
    thread_breaks,
)
from gpuscope.analysis.waits import launch_rows


def links(b: TimelineBuilder) -> list[tuple[int, int]]:
    timeline = b.build()
    found = device_links(timeline, 0, launch_rows(timeline))
    assert (found.given_ns <= found.start_ns).all()
    return list(zip(found.link.tolist(), found.before.tolist(), strict=True))


def test_the_last_of_launch_and_queue_holds_work_back() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-4)
    b.work(11, 20, launch_us=1)
    b.work(30, 40, launch_us=26)
    assert links(b) == [(LAUNCHED, -1), (QUEUE, 0), (LAUNCHED, -1)]


def test_without_a_launch_the_queue_is_all_that_is_known() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10)
    b.work(30, 40)
    assert links(b) == [(NOTHING, -1), (QUEUE, 0)]


def test_another_stream_holds_back_what_starts_right_after_it() -> None:
    b = TimelineBuilder()
    b.work(0, 50, launch_us=-9)
    b.work(0, 5, launch_us=-8, stream="link", kind="communication")
    b.work(51, 60, launch_us=-7, stream="link", kind="communication")
    assert links(b)[2] == (STREAM, 0)


def test_work_that_was_told_to_wait_may_start_a_little_later() -> None:
    for told, link in ((True, (STREAM, 0)), (False, (QUEUE, 1))):
        b = TimelineBuilder(origin="measured")
        b.work(0, 50, launch_us=-9)
        b.work(0, 5, launch_us=-8, stream="stream 20", kind="communication")
        if told:
            b.host(-6, -5.5, kind="other", name="cudaStreamWaitEvent")
        b.work(84, 90, launch_us=-5, stream="stream 20", kind="communication")
        assert links(b)[2] == link


def test_a_gap_that_the_queue_explains_needs_no_other_stream() -> None:
    b = TimelineBuilder()
    b.work(0, 50, launch_us=-9, stream="stream 20")
    b.work(0, 49, launch_us=-8)
    b.work(51, 60, launch_us=-7)
    assert links(b)[2] == (QUEUE, 1)


def test_a_long_event_on_the_lane_counts_over_a_later_short_one() -> None:
    b = TimelineBuilder()
    b.work(0, 50, launch_us=-9)
    b.work(10, 20, launch_us=-8)
    b.work(51, 60, launch_us=-7)
    assert links(b)[2] == (QUEUE, 0)


def breaks(b: TimelineBuilder) -> dict[str, list[tuple[float, float, str]]]:
    timeline = b.build()
    host = host_activity(timeline, 0, OpColumns.of(timeline))
    found = {}
    rows_of = thread_breaks(timeline.events, host.threads, host.waits, host.is_loader)
    for lane, rows in rows_of.items():
        givers = [timeline.lanes[i].name if i >= 0 else "device" for i in rows.lane.tolist()]
        times = (rows.time_ns / 1000).tolist(), (rows.done_ns / 1000).tolist()
        found[timeline.lanes[lane].name] = list(zip(*times, givers, strict=True))
    return found


def two_threads(b: TimelineBuilder, start: float, end: float, correlation: int) -> None:
    lane = b.lane("host autograd", "host", 0)
    b._add(start, end, "autograd::backward", "operator", lane)
    b._add(start, start + 1, "launch", "launch", lane, correlation=correlation)


def test_threads_hand_over_to_each_other() -> None:
    b = TimelineBuilder(origin="measured")
    b.host(0, 100, name="aten::forward")
    b.work(10, 20, launch_us=5)
    two_threads(b, 110, 190, 1000)
    b.host(200, 300, name="aten::step")
    assert breaks(b) == {
        "host main": [(200, 190, "host autograd")],
        "host autograd": [(110, 100, "host main")],
    }


def test_a_loader_is_work_of_its_thread() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(1, 20, launch_us=0)
    two_threads(b, 10, 30, 1000)
    b.host(40, 900, kind="other", name="enumerate(DataLoader)#_Iter.__next__")
    b.host(905, 910, name="aten::forward")
    two_threads(b, 1000, 1100, 1001)
    assert breaks(b)["host autograd"][-1] == (1000, 910, "host main")


def test_threads_side_by_side_do_not_hand_over() -> None:
    b = TimelineBuilder(origin="measured")
    for i in range(5):
        b.host(100 * i, 100 * i + 95, name="aten::op")
        b.work(100 * i + 10, 100 * i + 20, launch_us=100 * i + 5)
        two_threads(b, 100 * i + 50, 100 * i + 145, 1000 + i)
    found = breaks(b)
    assert found["host main"] == []
    assert found["host autograd"] == [(50, 50, "host main")]


def test_waits_are_breaks() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 40, launch_us=-5)
    b.host(10, 42, kind="sync", name="item")
    assert breaks(b)["host main"] == [(42, 40, "device")]
