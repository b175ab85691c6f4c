"""Devices that are used about as well as they can be."""

from __future__ import annotations

from builders import TimelineBuilder, find, kernel, matmul, streaming


def test_kernels_near_their_roofs_are_well_used() -> None:
    b = TimelineBuilder()
    b.chain([matmul(70, 0.75), streaming(30, 0.9)])
    found = find(b, "well_used")
    assert found is not None
    assert found.max_gain_s == 0.0


def test_busy_is_not_well_used() -> None:
    b = TimelineBuilder()
    b.chain([matmul(70, 0.3), streaming(30, 0.5)])
    assert find(b, "well_used") is None


def test_idle_is_not_well_used() -> None:
    b = TimelineBuilder()
    b.work(0, 80, cost=matmul(80, 0.95))
    b.step(0, 100)
    assert find(b, "well_used") is None


def test_time_lost_to_starting_kernels_is_not_well_used() -> None:
    b = TimelineBuilder()
    b.chain([matmul(80, 0.95)] + [kernel(2.5, limiter="latency", least_bytes=1e6)] * 8)
    assert find(b, "well_used") is None
    assert find(b, "launch_bound") is not None


def test_without_roofs_nothing_is_claimed() -> None:
    b = TimelineBuilder()
    b.chain([matmul(70, 0.75)])
    assert find(b, "well_used", device=None) is None
