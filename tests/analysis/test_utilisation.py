"""MFU and HFU."""

from __future__ import annotations

import pytest
from builders import H200, TimelineBuilder, matmul, streaming

from gpuscope.analysis import Utilisation, analyze
from gpuscope.timeline.types import Timeline


def used(timeline: Timeline, **options: object) -> Utilisation:
    found = analyze(timeline, on=H200, **options).utilisation  # type: ignore[arg-type]
    assert found is not None
    return found


def test_mfu_by_hand() -> None:
    b = TimelineBuilder()
    b.work(0, 50, cost=matmul(50, 0.8), op=b.op("aten::mm"))
    b.step(0, 100)
    found = used(b.build())
    assert found.mfu == pytest.approx(0.4)
    assert found.hfu == found.mfu
    assert found.model_flops == pytest.approx(matmul(50, 0.8).flops)


def test_pointwise_work_does_not_count() -> None:
    b = TimelineBuilder()
    b.work(0, 50, cost=matmul(50, 0.8), op=b.op("aten::mm"))
    b.work(50, 90, cost=streaming(40, flops=1e9), op=b.op("aten::gelu"))
    b.step(0, 100)
    assert used(b.build()).mfu == pytest.approx(0.4)


def test_recomputed_work_counts_in_hfu_only() -> None:
    b = TimelineBuilder()
    b.work(0, 40, cost=matmul(40, 0.5), op=b.op("aten::mm"))
    b.work(40, 80, cost=matmul(40, 0.5), op=b.op("aten::mm", phase="backward", recomputed=True))
    b.step(0, 80)
    found = used(b.build())
    assert found.mfu == pytest.approx(0.25)
    assert found.hfu == pytest.approx(0.5)


def test_a_fifth_of_attention_backward_is_recomputation() -> None:
    b = TimelineBuilder()
    op = b.op("gpuscope::attention_backward", phase="backward")
    b.work(0, 100, cost=matmul(100, 0.5, kind="attention"), op=op)
    found = used(b.build())
    assert found.mfu == pytest.approx(0.4)
    assert found.hfu == pytest.approx(0.5)


def test_the_peak_is_that_of_the_dtype_with_most_work() -> None:
    b = TimelineBuilder()
    b.work(0, 50, cost=matmul(50, 0.3, dtype="tf32"))
    b.work(50, 90, cost=matmul(40, 0.1))
    found = used(b.build())
    assert found.peak_flops_per_s == H200.peak_flops_per_s("tf32")
    assert "tf32" in found.definition


def test_without_a_device_there_are_flops_but_no_share() -> None:
    b = TimelineBuilder()
    b.work(0, 50, cost=matmul(50, 0.8))
    found = analyze(b.build()).utilisation
    assert found is not None
    assert found.mfu is None
    assert found.model_flops > 0
