"""No nanosecond is in the gains of two findings: who names least has it, the others the rest."""

from __future__ import annotations

import pytest
from builders import H200, TimelineBuilder, matmul, streaming

from gpuscope.analysis import analyze
from gpuscope.analysis.types import Finding


def told(builder: TimelineBuilder) -> dict[str, Finding]:
    return {found.kind: found for found in analyze(builder.build(), on=H200).findings}


def tailed(pace_us: float, count: int = 4) -> TimelineBuilder:
    """Products of 100 us at 0.7 of the peak, a quarter of whose time is a tail.

    A launch comes every `pace_us`.
    """
    b, now = TimelineBuilder(), 0.0
    for i in range(count):
        cost = matmul(100, of_peak=0.7, limiter="compute", waves=1.5)
        begin = max(now, i * pace_us + 4)
        b.work(begin, begin + 100, cost=cost, launch_us=i * pace_us)
        now = begin + 100
    b.step(0, now)
    return b


def test_the_tail_of_a_product_is_not_promised_again_by_what_all_products_lose() -> None:
    found = told(tailed(20))
    tail, all_of_it = found["poor_shapes"], found["compute_bound"]
    # A last wave half full: 25 us of each, and 30 us in all beyond the roofline.
    assert tail.max_gain_s == pytest.approx(4 * 25e-6)
    assert all_of_it.max_gain_s == pytest.approx(4 * 5e-6)
    assert all_of_it.rest_with == ("poor_shapes",)
    assert tail.rest_with == ()


def test_shorter_kernels_gain_nothing_behind_a_late_host() -> None:
    """Every kernel starts when its launch comes: only the last one's end moves the step's."""
    found = told(tailed(250, 8))
    host = found["host_bound"]
    assert host.max_gain_s == pytest.approx(7 * 150e-6, rel=0.02)
    kernels = [each for each in found.values() if each is not host]
    assert sum(each.max_gain_s or 0.0 for each in kernels) <= 100.1e-6
    assert any(each.rest_with == ("host_bound",) for each in kernels)


def test_the_gains_of_a_step_are_within_it() -> None:
    for period_us in (20, 104, 130, 250, 1000):
        found = analyze(tailed(period_us).build(), on=H200)
        assert sum(f.max_gain_s or 0.0 for f in found.findings) <= found.step_s


def test_fewer_kernels_gain_what_a_busy_host_would_hide_of_shorter_ones() -> None:
    """The host works 360 of 400 us: fusing relieves it, too; a better shape does not."""
    b = TimelineBuilder()
    for i in range(4):
        b.host(i * 90, i * 90 + 90, name="aten::mul")
        b.work(i * 100, i * 100 + 100, cost=streaming(100, 0.3), launch_us=max(0, i * 90 - 20))
    b.step(0, 400)
    analysis = analyze(b.build(), on=H200)
    path = analysis.critical_path
    assert path is not None
    assert path.gain_s.get("kernel", 0.0) < 100e-6
    assert path.fused_gain_s == pytest.approx(400e-6)
    (found,) = [f for f in analysis.findings if f.kind in ("bandwidth_bound", "pointwise_bound")]
    assert found.max_gain_s is not None
    assert found.max_gain_s > 250e-6
