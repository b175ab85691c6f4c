from __future__ import annotations

import pytest
from measure_builders import timeline

from gpuscope.measurement.step_windows import common_steps, device_steps
from gpuscope.timeline.types import Step


def test_windows_are_the_devices_not_the_hosts() -> None:
    """The host issues three steps in 30 ns; the device needs 100 ns for each."""
    host = [("launch", 1, 1), ("launch", 11, 1), ("launch", 21, 1)]
    device = [(10, 100, 0), (110, 100, 1), (210, 100, 2)]
    found = device_steps(timeline(host, device, [(0, 10), (10, 20), (20, 30)]))
    assert found == (Step(10, 110), Step(110, 210))


def test_a_step_with_several_kernels_begins_with_its_first() -> None:
    host = [("launch", 1, 1), ("launch", 2, 1), ("launch", 11, 1)]
    device = [(40, 5, 1), (30, 5, 0), (60, 5, 2)]
    assert device_steps(timeline(host, device, [(0, 10), (10, 20)])) == (Step(30, 60),)


def test_marks_stay_where_nothing_is_launched() -> None:
    marks = [(0, 10), (10, 20)]
    steps = tuple(Step(a, b) for a, b in marks)
    assert device_steps(timeline([("operator", 1, 2)], [], marks)) == steps
    # The second step launches nothing.
    assert device_steps(timeline([("launch", 1, 1)], [(5, 9, 0)], marks)) == steps
    # Nobody knows who launched it.
    assert device_steps(timeline([("launch", 1, 1)], [(5, 9, -1)], marks)) == steps


def test_one_mark_is_no_window() -> None:
    assert device_steps(timeline([("launch", 1, 1)], [(5, 9, 0)], [(0, 4)])) == (Step(0, 4),)
    assert device_steps(timeline([("launch", 1, 1)], [(5, 9, 0)])) == ()


def test_ranks_share_the_edges_of_the_one_that_begins_first() -> None:
    own = [Step(0, 10, 0), Step(10, 20, 0), Step(4, 13, 1), Step(13, 24, 1)]
    assert common_steps(own) == (Step(0, 10, 0), Step(10, 20, 0), Step(0, 10, 1), Step(10, 20, 1))


@pytest.mark.parametrize(
    "own",
    [
        [Step(0, 10, 0), Step(10, 20, 0)],  # one rank
        [Step(0, 10, 0), Step(10, 20, 0), Step(4, 13, 1)],  # not as many steps
        [Step(0, 10, 0), Step(10, 20, 0), Step(10, 20, 1), Step(20, 30, 1)],  # other steps
        [Step(0, 10, 0), Step(10, 20, 0), Step(900, 910, 1), Step(910, 920, 1)],  # another clock
    ],
)
def test_ranks_that_do_not_meet_keep_their_own_windows(own: list[Step]) -> None:
    assert common_steps(own) == tuple(own)
