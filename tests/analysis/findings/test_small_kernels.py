"""Short kernels of recorded timelines."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder, find, kernel


def recorded(short: int, long: int) -> TimelineBuilder:
    b = TimelineBuilder(origin="measured")
    now = 0.0
    for length in [3.0] * short + [200.0] * long:
        b.work(now, now + length, launch_us=-100 + now / 100)
        now += length
    return b


def test_many_short_kernels_are_found() -> None:
    found = find(recorded(50, 1), "small_kernels", device=None)
    assert found is not None
    assert found.max_gain_s == pytest.approx(150e-6)
    assert "50 of 51 kernels" in found.evidence


def test_time_must_matter() -> None:
    assert find(recorded(50, 20), "small_kernels", device=None) is None


def test_kernels_with_a_cost_model_belong_to_another_finding() -> None:
    b = TimelineBuilder()
    b.chain([kernel(3.0, limiter="latency") for _ in range(50)])
    assert find(b, "small_kernels") is None
    assert find(b, "launch_bound") is not None
