"""The walk back along a path: raw segments that touch, whatever happens."""

from __future__ import annotations

from builders import TimelineBuilder

from gpuscope.analysis.columns import OpColumns
from gpuscope.analysis.host_activity import Hosts
from gpuscope.analysis.path_walk import GAP, HAND_OVER, HOST, LATENCY, NONE, RETURN, WORK, Walker
from gpuscope.analysis.window import Window

NAMES = {
    WORK: "work",
    GAP: "gap",
    LATENCY: "latency",
    HOST: "host",
    RETURN: "return",
    HAND_OVER: "hand over",
    NONE: "none",
}


def walk(b: TimelineBuilder, low: float, high: float) -> list[tuple[str, float, float]]:
    timeline = b.build()
    window = Window(round(low * 1000), round(high * 1000), 1)
    walker = Walker(timeline, Hosts(timeline, OpColumns.of(timeline)), None)
    start, end, code, _ = walker.walk(0, window).columns()
    assert (end[:-1] == start[1:]).all()
    assert (start[0], end[-1]) == (window.start_ns, window.end_ns)
    return [
        (NAMES[c], s / 1000, e / 1000)
        for c, s, e in zip(code.tolist(), start.tolist(), end.tolist(), strict=True)
    ]


def test_a_window_that_ends_in_a_kernel_begins_there() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 30, launch_us=-4)
    assert walk(b, 10, 20) == [("work", 10, 20)]


def test_a_window_that_ends_in_a_queue_s_gap_stays_on_the_device() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-9)
    b.work(12, 20, launch_us=-8)
    assert walk(b, 0, 11) == [("work", 0, 10), ("gap", 10, 11)]


def test_a_window_that_ends_before_a_late_launch_ends_on_the_host() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-4)
    b.work(40, 50, launch_us=36)
    assert walk(b, 0, 20) == [("host", 0, 20)]


def test_a_wait_leads_back_to_the_device() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-4)
    b.host(2, 12, kind="sync", name="item")
    b.work(40, 50, launch_us=36)
    assert walk(b, 0, 20) == [("work", 0, 10), ("return", 10, 12), ("host", 12, 20)]


def test_without_a_host_the_past_is_unknown() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(10, 20)
    assert walk(b, 0, 30) == [("none", 0, 10), ("work", 10, 20), ("none", 20, 30)]


def test_before_anything_happened_nothing_is_known() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(50, 60)
    assert walk(b, 0, 10) == [("none", 0, 10)]
