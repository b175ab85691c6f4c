"""Kernels too short for the device."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder, find, kernel, matmul


def tiny(count: int, gap_us: float = 0.0) -> TimelineBuilder:
    b = TimelineBuilder()
    costs = [kernel(2.5, limiter="latency", least_bytes=4.8e5) for _ in range(count)]
    end = b.chain(costs, gap_us)
    b.work(end, end + 100, cost=matmul(100), launch_us=-5)
    return b


def test_short_kernels_gain_what_the_roofline_leaves() -> None:
    found = find(tiny(40), "launch_bound")
    assert found is not None
    # 2.5 us each, of which 0.1 us is traffic.
    assert found.max_gain_s == pytest.approx(40 * 2.4e-6)
    assert "40 kernels that average 2.50 µs" in found.evidence


def test_gaps_between_them_count_too() -> None:
    found = find(tiny(40, gap_us=1.0), "launch_bound")
    assert found is not None
    assert found.max_gain_s == pytest.approx(40 * 3.4e-6)


def test_a_few_short_kernels_do_not_matter() -> None:
    assert find(tiny(3), "launch_bound") is None
