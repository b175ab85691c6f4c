"""Steps that device memory bandwidth limits."""

from __future__ import annotations

import pytest
from builders import H200, TimelineBuilder, find, matmul, streaming

from gpuscope.analysis import analyze


def decode() -> TimelineBuilder:
    """99 % busy: thin matrix products that read weights at 85 % of the bandwidth."""
    b = TimelineBuilder()
    op = b.op("aten::mm")
    costs = [streaming(99, 0.85, kind="matmul", name="gemv", flops=1e9) for _ in range(20)]
    b.chain(costs, gap_us=1, op=op)
    return b


def test_a_busy_decode_is_bandwidth_bound_and_nothing_else() -> None:
    kinds = [found.kind for found in analyze(decode().build(), on=H200).findings]
    assert kinds[0] == "bandwidth_bound"
    assert not {"host_bound", "launch_bound", "small_kernels", "sync_bound"} & set(kinds)


def test_gain_and_evidence_of_a_decode() -> None:
    found = find(decode(), "bandwidth_bound")
    assert found is not None
    assert found.max_gain_s == pytest.approx(20 * 99e-6 * 0.15)
    assert "85 % of the device's 4.80 TB/s" in found.evidence
    assert "weights" in found.hint


def test_pointwise_work_gets_the_advice_to_fuse() -> None:
    b = TimelineBuilder()
    b.chain([streaming(80), matmul(20)])
    found = find(b, "bandwidth_bound")
    assert found is not None
    assert "fuse" in found.hint
    assert "sets the pace" in found.title


def test_with_an_idle_device_bandwidth_does_not_set_the_pace() -> None:
    b = TimelineBuilder()
    b.work(0, 60, cost=streaming(60), launch_us=-9)
    b.work(90, 100, cost=streaming(10), launch_us=85)
    found = find(b, "bandwidth_bound")
    assert found is not None
    assert "sets the pace" not in found.title


def test_a_compute_bound_step_is_not() -> None:
    b = TimelineBuilder()
    b.chain([streaming(45), matmul(55)])
    assert find(b, "bandwidth_bound") is None
