"""Where arrays would lie on a device, and what one launch keeps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gpuscope.kernel_lens.machine import Machine
from gpuscope.kernel_lens.recorder import ALIGNMENT, DeviceMap, LimitReached, Recorder


@pytest.fixture
def recorder() -> Recorder:
    recorder = Recorder(Machine(), limit=10)
    recorder.begin("kernel", "numba", (1, 1, 1), (32, 1, 1))
    return recorder


def test_arrays_begin_aligned_and_do_not_overlap(recorder):
    places = [recorder.allocate(f"a{n}", 1000 * n + 8, 700, "int8", (700,)) for n in range(5)]
    for one, following in pairwise(places):
        assert one.base % ALIGNMENT == 0
        assert following.base >= one.base + one.size_bytes
    assert recorder.allocate("again", 8, 700, "int8", (700,)) is places[0]


def test_addresses_keep_their_place_in_the_array(recorder):
    first = recorder.allocate("first", 5000, 100, "int8", (100,))
    second = recorder.allocate("second", 1000, 64, "int8", (64,))
    there = DeviceMap([first, second])
    assert there.on_device(np.array([5007, 1063])).tolist() == [first.base + 7, second.base + 63]
    assert there.owner(5099) is first
    assert there.owner(5100) is None
    assert there.owner(999) is None


def test_what_reaches_over_an_end_is_outside(recorder):
    there = DeviceMap([recorder.allocate("x", 1000, 64, "int8", (64,))])
    asked = np.array([999, 1000, 1060, 1061])
    assert there.outside(asked, 4).tolist() == [True, False, False, True]
    assert DeviceMap([]).outside(np.array([0]), 1).tolist() == [True]


def test_the_limit_is_exact(recorder):
    recorder.count(10)
    with pytest.raises(LimitReached):
        recorder.count(1)


def test_a_launch_without_accesses_is_a_launch(recorder):
    recorder.end()
    (launch,) = recorder.launches
    assert (launch.accesses, launch.arrays, launch.active_share) == ((), (), None)
    with pytest.raises(RuntimeError, match="no launch is open"):
        recorder.launch.notes.clear()


def test_only_numbers_are_kept_of_the_arguments(recorder):
    recorder.launch.take_scalars(["a", "b", "c", "d"], [1, np.zeros(3), 2.5, "text"])
    recorder.end()
    assert recorder.launches[0].scalars == (("a", "1"), ("c", "2.5"))
