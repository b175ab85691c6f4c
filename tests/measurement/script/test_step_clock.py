"""Boundaries on the host and on the device; the device is played by events with known times."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from gpuscope.measurement.script import step_clock as module
from gpuscope.measurement.script.step_clock import StepClock


class Played:
    """A device that comes by each event at a time from a list; None: never."""

    def __init__(self, times_s: list[float | None]) -> None:
        self.times_s = iter(times_s)
        self.made = 0

    def Event(self, enable_timing: bool):  # noqa: N802 - as torch.cuda has it
        assert enable_timing
        self.made += 1
        at = next(self.times_s)
        event = SimpleNamespace(at=at, record=lambda: None, query=lambda: at is not None)
        event.elapsed_time = lambda other: (other.at - at) * 1e3
        return event


def test_the_devices_own_times(monkeypatch) -> None:
    played = Played([0.0, 0.5, 1.5])
    monkeypatch.setattr(module, "_device_module", lambda: played)
    clock = StepClock()
    for _ in range(3):
        clock.mark()
    assert clock.device_intervals_s() == pytest.approx([0.5, 1.0])
    assert len(clock.host_intervals_s()) == 2
    assert len(clock) == 3
    clock.clear()
    assert (len(clock), clock.device_intervals_s()) == (0, [])


def test_a_device_that_hangs_is_not_waited_for(monkeypatch) -> None:
    played = Played([0.0, 1.0, None])
    monkeypatch.setattr(module, "_device_module", lambda: played)
    monkeypatch.setattr(module, "WAIT_S", 0.05)
    clock = StepClock()
    for _ in range(3):
        clock.mark()
    begin = time.monotonic()
    assert clock.device_intervals_s() == [1.0, None]
    assert time.monotonic() - begin < 20  # a busy machine; that it ends at all is what counts


def test_without_a_device_there_are_only_the_hosts_times() -> None:
    clock = StepClock()
    for _ in range(3):
        clock.mark()
        time.sleep(0.002)
    assert clock.device_intervals_s() == [None, None]
    assert min(clock.host_intervals_s()) >= 0.002


def test_only_the_last_events_are_kept(monkeypatch) -> None:
    played = Played([float(i) for i in range(10)])
    monkeypatch.setattr(module, "_device_module", lambda: played)
    monkeypatch.setattr(module, "MOST_EVENTS", 4)
    clock = StepClock()
    for _ in range(10):
        clock.mark()
    assert clock.device_intervals_s() == [None] * 6 + [1.0] * 3


def test_a_failing_device_leaves_the_program_alone(monkeypatch) -> None:
    class Failing:
        def Event(self, enable_timing: bool):  # noqa: N802
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(module, "_device_module", Failing)
    clock = StepClock()
    clock.mark()
    clock.mark()
    assert clock.device_intervals_s() == [None]


def test_a_device_that_the_program_has_not_touched_stays_untouched(monkeypatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    has = {0}
    monkeypatch.setattr(torch._C, "_cuda_hasPrimaryContext", has.__contains__, raising=False)
    assert module._device_module() is None
    has.add(3)
    assert module._device_module() is torch.cuda
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert module._device_module() is None


@pytest.mark.gpu
def test_a_host_that_runs_ahead_of_a_real_device() -> None:
    import torch

    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    for _ in range(3):
        a @ a
    torch.cuda.synchronize()
    clock = StepClock()
    for _ in range(20):
        clock.mark()
        a @ a
    clock.mark()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
    true_s = (time.perf_counter() - begin) / 20
    found = sorted(value for value in clock.device_intervals_s() if value is not None)
    assert len(found) == 20
    assert found[10] == pytest.approx(true_s, rel=0.1)
    assert sorted(clock.host_intervals_s())[10] < 0.5 * true_s
