"""Waves that are only partly filled."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder, find, matmul, spec, streaming


def tailed(waves: float, of_peak: float = 0.4) -> TimelineBuilder:
    b = TimelineBuilder()
    op = b.op("aten::mm", inputs=(spec(640, 640), spec(640, 640)))
    b.chain([matmul(100, of_peak, waves=waves), matmul(100, of_peak, waves=waves)], op=op)
    return b


def test_the_loss_is_the_empty_share_of_the_time() -> None:
    found = find(tailed(1.25), "poor_shapes")
    assert found is not None
    assert found.max_gain_s == pytest.approx(2 * 100e-6 * 0.375)
    assert "mm 640x640, 640x640 bf16" in found.evidence


def test_the_loss_never_goes_below_the_roofline() -> None:
    found = find(tailed(1.25, of_peak=0.75), "poor_shapes")
    assert found is not None
    assert found.max_gain_s == pytest.approx(2 * 25e-6)


def test_full_waves_lose_nothing() -> None:
    assert find(tailed(3.0), "poor_shapes") is None


def test_kernels_that_bandwidth_limits_do_not_mind() -> None:
    b = TimelineBuilder()
    b.chain([streaming(100, 0.5, waves=1.25)])
    assert find(b, "poor_shapes") is None
