"""What one launch asks of the units: known answers, and in step with the curves over the step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import BANDWIDTH, H200, PEAK_BF16, TimelineBuilder, kernel, matmul, streaming

from gpuscope.analysis.grouping import group_key
from gpuscope.analysis.unit_limits import use_by_group
from gpuscope.analysis.use_over_time import use_over_time


def test_work_over_time_is_what_the_curve_holds_while_it_runs() -> None:
    made = TimelineBuilder()
    product, stream = matmul(50.0, 0.7), streaming(50.0, 0.9)
    made.chain([product, stream])
    timeline = made.build()
    by_group = use_by_group(timeline, H200)
    curves = use_over_time(timeline, H200, bins=10)
    assert curves is not None
    held = {series.key: series.values for series in curves.series}
    first, second = (by_group[group_key(one)] for one in (product, stream))
    assert first.tensor_s * PEAK_BF16 == pytest.approx(product.flops)
    assert first.tensor_s / 50e-6 == pytest.approx(held["tensor"][1])
    assert second.memory_bytes / 50e-6 == pytest.approx(held["memory"][7])
    assert second.memory_bytes / 50e-6 == pytest.approx(0.9 * BANDWIDTH)
    assert second.tensor_s == 0.0


def test_a_recorded_kernel_without_a_model_is_left_out() -> None:
    made = TimelineBuilder()
    made.chain([streaming(50.0, 0.9), kernel(5.0, name="someone's", kind="other")])
    timeline = replace(made.build(), origin="measured")
    assert len(use_by_group(timeline, H200)) == 1
    assert len(use_by_group(replace(timeline, origin="predicted"), H200)) == 2


def test_without_a_device_no_share_is_claimed() -> None:
    made = TimelineBuilder()
    made.chain([matmul(50.0, 0.7)])
    (use,) = use_by_group(made.build(), None).values()
    assert use.tensor_s == use.vector_s == 0.0
    assert use.sm_share is None
    assert use.memory_bytes > 0
