"""Late launches on timelines counted by hand."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder

from gpuscope.analysis.launch_delays import FEWEST, launch_delays
from gpuscope.analysis.window import Window, device_work
from gpuscope.timeline.types import Timeline


def recorded(late_us: float, launches: int = 12) -> Timeline:
    """Kernels of 10 us every 1,000, each 4 us after its call; the last one later."""
    b = TimelineBuilder(origin="measured")
    for number in range(launches):
        begin = 1000.0 * number
        late = late_us if number == launches - 1 else 0.0
        b.work(begin + 4 + late, begin + 14 + late, launch_us=begin, name=f"kernel_{number}")
    return b.build()


def work_of(timeline: Timeline, end_us: int = 20_000, steps: int = 1):
    return device_work(timeline, 0, Window(0, end_us * 1000, steps))


def test_the_late_one_is_named_with_what_it_costs() -> None:
    timeline = recorded(300.0)
    found = launch_delays(timeline, work_of(timeline, steps=3))
    assert found is not None
    assert (found.count, found.of) == (1, 12)
    assert found.typical_s == pytest.approx(4e-6)
    assert found.lost_s == pytest.approx(300e-6 / 3)
    (row,) = found.rows
    assert (row.kernel, row.call) == ("kernel_11", "launch")
    assert row.delay_s == pytest.approx(304e-6)
    assert row.call_s == pytest.approx(1e-6)
    assert row.at_s == pytest.approx(11_000e-6)


@pytest.mark.parametrize("late_us", [0.0, 14.0, 36.0])
def test_a_little_later_is_not_late(late_us: float) -> None:
    timeline = recorded(late_us)
    found = launch_delays(timeline, work_of(timeline))
    assert found is not None
    assert (found.count, found.lost_s, found.rows) == (0, 0.0, ())


def test_work_that_waits_in_the_queue_is_not_late() -> None:
    b = TimelineBuilder(origin="measured")
    for number in range(12):
        b.work(1000.0 * number + 4, 1000.0 * number + 14, launch_us=1000.0 * number)
    b.work(20_004, 29_000, launch_us=20_000)
    b.work(29_000, 29_010, launch_us=20_002)
    timeline = b.build()
    found = launch_delays(timeline, work_of(timeline, 30_000))
    assert found is not None
    assert (found.count, found.of) == (0, 13)


def test_few_launches_have_no_median() -> None:
    timeline = recorded(300.0, FEWEST - 1)
    assert launch_delays(timeline, work_of(timeline)) is None
    assert launch_delays(timeline, device_work(timeline, 0, Window(-9, -1, 1))) is None
