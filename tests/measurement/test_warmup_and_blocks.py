"""Warm-up and timing with steps whose time is known."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gpuscope.errors import WorkloadError
from gpuscope.measurement import blocks, warmup
from gpuscope.measurement.accelerator import Accelerator
from gpuscope.measurement.blocks import LEAST_BLOCKS, host_issue_s, time_blocks
from gpuscope.measurement.sensors import Reading, Replay
from gpuscope.measurement.warmup import quiet, warm_up


class Clock:
    """Stands still but for what steps take: other programs of the machine do not move it."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


CLOCK = Clock()


@pytest.fixture(autouse=True)
def _given(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (blocks, warmup):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=CLOCK.perf_counter))


class Sleeper:
    """A step that takes its time: slow at first, then steady."""

    def __init__(self, slow: int = 0, slow_s: float = 0.02, steady_s: float = 0.002) -> None:
        self.calls = 0
        self.slow, self.slow_s, self.steady_s = slow, slow_s, steady_s

    def __call__(self) -> None:
        CLOCK.now += self.slow_s if self.calls < self.slow else self.steady_s
        self.calls += 1


@pytest.fixture
def cpu() -> Accelerator:
    return Accelerator("cpu")


def test_slow_first_steps_are_found(cpu: Accelerator) -> None:
    found = warm_up(Sleeper(slow=3), cpu)
    assert found.settled_after is not None
    assert found.settled_after == 3
    assert found.times_s[0] == pytest.approx(0.02)
    assert found.steady_s == pytest.approx(0.002)
    assert found.device_allocations is None


def test_warm_up_gives_up_after_its_time(cpu: Accelerator) -> None:
    step = Sleeper(slow=10**9, slow_s=0.05)
    found = warm_up(step, cpu, most_s=0.16)
    assert found.settled_after is None
    assert len(found.times_s) == 3


def test_a_step_that_still_allocates_or_compiles_is_not_warm() -> None:
    assert quiet([4, 0, 0, 0], [0, 1, 1, 1, 1])
    assert not quiet([4, 0, 1, 0], [0, 0, 0, 0, 0])
    assert not quiet([], [0, 0, 0, 1])
    assert quiet([], [0])


def test_blocks_say_the_step_time(cpu: Accelerator) -> None:
    step = Sleeper()
    found = time_blocks(step, cpu, seconds=0.3, rough_s=0.002)
    assert len(found.means_s) >= LEAST_BLOCKS
    assert step.calls == len(found.means_s) * found.steps_per_block
    assert found.interval.median == pytest.approx(0.002)
    assert found.interval.confidence >= 0.95


def test_a_long_step_is_timed_six_times(cpu: Accelerator) -> None:
    found = time_blocks(Sleeper(steady_s=0.03), cpu, seconds=0.05, rough_s=0.03)
    assert (len(found.means_s), found.steps_per_block) == (6, 1)


def test_the_sensor_is_read_around_every_block(cpu: Accelerator) -> None:
    sensor = Replay([Reading(float(i), energy_j=float(i)) for i in range(100)])
    found = time_blocks(Sleeper(), cpu, seconds=0.1, rough_s=0.002, sensor=sensor)
    assert len(found.readings) == len(found.means_s) + 1


def test_an_interrupt_keeps_the_blocks_that_are_over(cpu: Accelerator) -> None:
    calls = 0

    def step() -> None:
        nonlocal calls
        calls += 1
        CLOCK.now += 0.001
        if calls == 60:
            raise KeyboardInterrupt

    found = time_blocks(step, cpu, seconds=0.3, rough_s=0.0015)
    assert found.interrupted
    assert len(found.means_s) == 59 // found.steps_per_block

    def at_once() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        time_blocks(at_once, cpu, seconds=0.3, rough_s=0.001)


def test_a_step_that_fails_while_it_is_timed(cpu: Accelerator) -> None:
    steps = iter(range(20))
    with pytest.raises(WorkloadError, match="StopIteration"):
        time_blocks(lambda: next(steps), cpu, seconds=0.1, rough_s=0.001)


def test_time_to_issue(cpu: Accelerator) -> None:
    assert host_issue_s(Sleeper(), cpu, 1.0) == pytest.approx(0.002)
