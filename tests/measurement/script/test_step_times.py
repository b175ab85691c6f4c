"""Which clock gives the step time: host, device, or the recorded steps themselves."""

from __future__ import annotations

import pytest
from measure_builders import timeline

from gpuscope.measurement.script.step_clock import StepClock
from gpuscope.measurement.script.step_times import Intervals, intervals, step_time

MS = 1_000_000


class Known(StepClock):
    """A clock whose boundaries are known: host and device seconds."""

    def __init__(self, host: list[float], device: list[float | None]) -> None:
        super().__init__()
        self.host, self.device = host, device

    def host_intervals_s(self) -> list[float]:
        return self.host

    def device_intervals_s(self) -> list[float | None]:
        return self.device


def _recorded(busy_ms: float = 2.4, kind_steps: int = 3):
    """Steps of 2.5 ms, of which the device works `busy_ms`; launched well ahead."""
    host = [("launch", 1000 * i + 1, 1) for i in range(kind_steps)]
    device = [(int(2.5 * MS * (i + 1)), int(busy_ms * MS), i) for i in range(kind_steps)]
    windows = [(int(2.5 * MS * (i + 1)), int(2.5 * MS * (i + 2))) for i in range(kind_steps)]
    return timeline(host, device, windows)


def test_a_host_that_runs_ahead_is_not_the_step_time() -> None:
    timed = Intervals((1.33e-3,) * 20, (2.41e-3,) * 20)
    found = step_time(_recorded(), timed, on_device=True)
    assert found.interval.median == 2.41e-3
    assert "on the device" in found.sentences[0]
    assert "1.33 ms" in found.sentences[0]


def test_equal_clocks_give_the_devices_time() -> None:
    timed = Intervals((10.0e-3,) * 20, (9.99e-3,) * 20)
    assert timed.chosen_s == timed.device_s
    assert timed.sentence.endswith("events at their boundaries.")


def test_a_host_that_is_longer_counts() -> None:
    timed = Intervals((10.0e-3,) * 20, (0.1e-3,) * 20)
    assert timed.chosen_s == timed.host_s
    assert "on the host" in timed.sentence


def test_boundaries_that_know_nothing_of_the_device_are_not_believed() -> None:
    """Work on another stream than the current one, and no device times: 1.33 ms cannot be."""
    found = step_time(_recorded(), Intervals((1.33e-3,) * 20), on_device=True)
    assert found.interval.median == pytest.approx(2.5e-3)
    assert "2.40 ms" in found.sentences[0]
    # On a CPU the profiler slows the work itself: the time without it holds.
    assert step_time(_recorded(), Intervals((1.33e-3,) * 20), False).interval.median == 1.33e-3


def test_too_few_give_the_recorded_steps() -> None:
    found = step_time(_recorded(), Intervals((1e-3,) * 4), on_device=True)
    assert found.interval.median == pytest.approx(2.5e-3)
    assert "Too few" in found.sentences[0]
    assert found.samples_s == (1e-3,) * 4


def test_settled_steps_before_and_the_steps_after() -> None:
    before = Known([9.0] + [1.0] * 19, [9.5] + [1.5] * 19)
    after = Known([5.0, 5.0, 1.0, 1.0], [5.0, 5.0, 1.5, None])
    found = intervals(before, after, None, on_device=True)
    assert found.host_s == (1.0,) * 21
    assert found.device_s == (1.5,) * 20
    assert intervals(before, after, None, on_device=False).device_s == ()


def test_what_the_profilers_start_disturbed_is_left_out() -> None:
    before = Known([1.0] * 9 + [30.0, 1.0], [1.0] * 9 + [30.0, 1.0])
    found = intervals(before, Known([], []), 10, on_device=True)
    assert found.host_s == found.device_s == (1.0,) * 9


def test_a_few_device_times_are_not_enough() -> None:
    assert Intervals((1.0,) * 6, (2.0,) * 4).chosen_s == (1.0,) * 6
