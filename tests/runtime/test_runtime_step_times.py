"""Predicted beside measured step times, by a clock that a test turns."""

from __future__ import annotations

from types import SimpleNamespace

from gpuscope.runtime import StepTimes


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_every_step() -> None:
    clock = Clock()
    times = StepTimes(SimpleNamespace(step_time_s=0.25), warmup=2, clock=clock)
    told = []
    for step in range(1, 6):
        clock.now += 9.0 if step < 3 else 0.5  # the first ones compile
        told.append(times.at(step))
    assert told[:3] == [{}, {}, {}]
    assert told[3] == {
        "gpuscope/measured_step_s": 0.5,
        "gpuscope/predicted_step_s": 0.25,
        "gpuscope/measured_over_predicted": 2.0,
    }
    assert told[4] == told[3]


def test_every_tenth_step_is_their_mean() -> None:
    clock = Clock()
    times = StepTimes(0.5, clock=clock)
    assert times.at(10) == {}
    clock.now += 50.0
    assert times.at(20) == {}  # the first that counts
    clock.now += 10.0
    assert times.at(30)["gpuscope/measured_step_s"] == 1.0


def test_a_step_that_was_told_is_not_told_again() -> None:
    clock = Clock()
    times = StepTimes(0.5, warmup=0, clock=clock)
    assert times.at(1) == {}
    clock.now += 1.0
    assert times.at(1) == {}
    assert times.at(2)["gpuscope/measured_over_predicted"] == 2.0
