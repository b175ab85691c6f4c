"""How steps differ, and what made a slow one slow."""

from __future__ import annotations

import numpy as np
import pytest
from builders import TimelineBuilder
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis.recorded_types import RankSteps
from gpuscope.analysis.step_spread import slow_steps, step_spread


def steps(lengths_us: list[float], extra: str = "compute") -> TimelineBuilder:
    """Steps of 80 us of kernels and 20 us idle; what is longer than 100 us goes to `extra`."""
    b, now = TimelineBuilder(origin="measured"), 0.0
    for number, length in enumerate(lengths_us):
        more = length - 100
        kernel = 80 + (more if extra == "compute" else 0)
        if more and extra == "loader":
            b.host(now, now + more, kind="python", name="DataLoader.__next__")
        begin = now + (more if extra == "loader" else 0)
        b.work(begin + 10, begin + 10 + kernel, name=f"k{number % 2}", launch_us=begin + 1)
        b.step(now, now + length)
        now += length
    return b


def only(b: TimelineBuilder) -> RankSteps:
    found = step_spread(b.build())
    assert found is not None
    (rank,) = found.ranks
    for slow in rank.slow:
        assert sum(time for _, time in slow.parts) == pytest.approx(slow.extra_s, abs=1e-12)
    return rank


def test_even_steps_have_no_slow_one() -> None:
    found = only(steps([100] * 5))
    assert found.median_s == found.mean_s == found.slowest_s == pytest.approx(100e-6)
    assert found.spread == 0
    assert found.slow == ()


def test_two_steps_tell_nothing() -> None:
    assert step_spread(steps([100, 200]).build()) is None
    b = TimelineBuilder()
    b.work(0, 10)
    assert step_spread(b.build()) is None


def test_a_slow_step_with_longer_kernels() -> None:
    found = only(steps([100, 100, 160, 100, 100]))
    (slow,) = found.slow
    assert slow.number == 2
    assert slow.start_ns == 200_000
    assert slow.extra_s == pytest.approx(60e-6)
    assert slow.parts[0] == ("computation", pytest.approx(60e-6))
    assert slow.causes[0][0] == "k0"
    assert found.mean_s == pytest.approx(112e-6)


def test_a_slow_step_that_waits_for_its_loader() -> None:
    found = only(steps([100, 100, 100, 190, 100], "loader"))
    (slow,) = found.slow
    # the loader runs 90 us, of which the device stands idle all the time
    parts = dict(slow.parts)
    assert parts["idle: waiting for data"] == pytest.approx(90e-6, rel=0.15)
    assert slow.causes[0][0] == "DataLoader.__next__"
    assert found.jitter["data loader"] == (0.0, pytest.approx(90e-6))


def test_jitter_by_what_is_known_to_vary() -> None:
    b = steps([100] * 4)
    b.host(210, 250, kind="other", name="cudaMalloc")
    b.host(250, 260, kind="python", name="gc.collect")
    found = only(b)
    assert found.jitter["allocation on the device"] == (0.0, pytest.approx(40e-6))
    assert found.jitter["garbage collection"] == (0.0, pytest.approx(10e-6))
    assert "compilation" not in found.jitter


def test_each_rank_has_its_own_steps() -> None:
    b = steps([100] * 3)
    for number in range(4):
        b.step(50.0 * number, 50.0 * number + 50, rank=3)
    found = step_spread(b.build())
    assert found is not None
    assert [(r.rank, len(r.times_s)) for r in found.ranks] == [(0, 3), (3, 4)]


@given(st.lists(st.integers(100, 1_000), min_size=3, max_size=12))
def test_parts_add_up_for_any_steps(lengths: list[int]) -> None:
    found = only(steps([float(length) for length in lengths]))
    slowest = {slow.number for slow in found.slow}
    assert slowest <= set(range(len(lengths)))
    for slow in found.slow:
        assert slow.time_s > 1.2 * found.median_s


@given(st.lists(st.floats(1e-6, 10), min_size=3, max_size=30), st.floats(0.1, 100))
def test_which_steps_are_slow_does_not_depend_on_the_unit(times: list[float], by: float) -> None:
    first = np.array(times)
    # A time exactly on the border may fall to either side by rounding.
    median = float(np.median(first))
    border = np.isclose(first, 1.2 * median, rtol=1e-9)
    deviation = 1.4826 * float(np.median(np.abs(first - median)))
    border |= np.isclose(first, median + 3 * deviation, rtol=1e-9)
    if not border.any():
        assert slow_steps(first).tolist() == slow_steps(first * by).tolist()
