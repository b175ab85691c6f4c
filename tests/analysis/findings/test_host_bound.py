"""The host that launches too slowly."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder, find, streaming


def eager(kernel_us: float, period_us: float, count: int = 20) -> TimelineBuilder:
    """Kernels whose launches come every `period_us`; 4 us from launch to start."""
    b = TimelineBuilder()
    for i in range(count):
        now = i * period_us
        b.work(now + 4, now + 4 + kernel_us, cost=streaming(kernel_us), launch_us=now)
    b.step(0, count * period_us)
    return b


def test_late_launches_make_it_host_bound() -> None:
    found = find(eager(6, 20), "host_bound")
    assert found is not None
    assert found.max_gain_s == pytest.approx(20 * 14e-6)
    assert "The host sets the pace" in found.title
    assert "120 µs of the 400 µs step" in found.evidence


def test_a_smaller_delay_is_not_called_the_pace() -> None:
    found = find(eager(20, 25), "host_bound")
    assert found is not None
    assert "The host delays the device" in found.title


def test_a_busy_device_is_never_host_bound() -> None:
    assert find(eager(19.5, 20), "host_bound") is None


def test_idle_for_another_reason_is_not_host_bound() -> None:
    b = TimelineBuilder()
    b.work(0, 40, cost=streaming(40), launch_us=-9)
    b.host(-5, 45, kind="sync", name="item")
    b.work(90, 100, cost=streaming(10), launch_us=85)
    assert find(b, "host_bound") is None
