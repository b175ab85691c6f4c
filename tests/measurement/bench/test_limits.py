"""The least time by the datasheet, by hand for an H200: 989.5 TFLOP/s bf16, 4.8 TB/s."""

from __future__ import annotations

import pytest

from gpuscope.hardware import device
from gpuscope.measurement.bench.limits import bound, link_bound

H200 = device("h200")
PEAK = H200.peak_flops_per_s("bf16")


def test_a_large_product_is_bound_by_arithmetic() -> None:
    flops, traffic = 2.0 * 8192**3, 3 * 2.0 * 8192**2
    name, seconds = bound(H200, dtype="bf16", flops=flops, traffic=traffic)
    assert name == "compute"
    assert seconds == pytest.approx(flops / PEAK)
    assert seconds == pytest.approx(1.11e-3, rel=0.01)


def test_a_thin_one_is_bound_by_memory() -> None:
    traffic = 2.0 * 16384**2
    name, seconds = bound(H200, dtype="bf16", flops=traffic, traffic=traffic)
    assert name == "memory"
    assert seconds == pytest.approx(traffic / 4.8e12)


def test_what_stays_in_the_cache_has_no_stated_limit() -> None:
    assert bound(H200, traffic=2.0**20, hot=True) == ("cache", None)
    assert bound(H200, traffic=2.0**20, hot=False)[0] == "memory"
    # but arithmetic that takes longer than even device memory would is a limit
    name, seconds = bound(H200, dtype="bf16", flops=2.0 * 2048**3, traffic=6.0 * 2048**2, hot=True)
    assert name == "compute"
    assert seconds == pytest.approx(2.0 * 2048**3 / PEAK)


def test_what_is_not_known_is_not_made_up() -> None:
    assert bound(None, dtype="bf16", flops=1e9, traffic=1e6) == ("", None)
    assert bound(H200) == ("", None)
    assert bound(device("a100"), dtype="fp8", flops=1e9) == ("", None)  # it has no fp8
    assert link_bound(None, 1e9) is None


def test_links_count_one_direction() -> None:
    assert link_bound(H200, 64e9) == pytest.approx(64e9 / H200.host_link_bandwidth_bytes_per_s)
    peer = H200.scale_up_bandwidth_bytes_per_s
    assert link_bound(H200, 1e9, peer=True) == pytest.approx(1e9 / peer)
