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


def replayed(gap_us: float, kernels: int = 60) -> TimelineBuilder:
    """One graph launch of many 6-us kernels with gaps between them."""
    b, now = TimelineBuilder(origin="measured"), 20.0
    b.work(now - 6, now, launch_us=0)
    b.rows[-2] = (*b.rows[-2][:2], b.name("cudaGraphLaunch"), *b.rows[-2][3:])
    for _ in range(kernels - 1):
        now += gap_us
        b.work(now, now + 6)
        b.rows[-1] = (*b.rows[-1][:-1], 0)
        now += 6
    return b


def test_a_replayed_graph_is_busy_and_has_nothing_to_launch_faster() -> None:
    found = find(replayed(0.5), "well_used")
    assert found is not None
    assert "1 graph of 60 kernels" in found.evidence
    assert found.max_gain_s == 0.0
    assert find(replayed(0.5), "small_kernels") is None
    assert find(replayed(0.5), "launch_bound") is None


def test_a_graph_with_long_gaps_is_not_called_busy() -> None:
    assert find(replayed(5.0), "well_used") is None
