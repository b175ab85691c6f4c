"""Steps that arithmetic limits."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder, find, matmul, streaming


def test_matrix_work_is_compute_bound() -> None:
    b = TimelineBuilder()
    b.chain([matmul(80, 0.75), streaming(20)])
    found = find(b, "compute_bound")
    assert found is not None
    assert found.max_gain_s == pytest.approx(20e-6)
    assert "Arithmetic sets the pace: 80 %" in found.title
    assert "742 TFLOP/s, 75 %" in found.evidence


def test_without_a_device_the_gain_is_unknown_not_zero() -> None:
    b = TimelineBuilder()
    b.chain([matmul(80), streaming(20)])
    found = find(b, "compute_bound", device=None)
    assert found is not None
    assert found.max_gain_s is None


def test_a_host_bound_step_is_not_compute_bound() -> None:
    b = TimelineBuilder()
    b.work(0, 45, cost=matmul(45), launch_us=-4)
    b.step(0, 100)
    assert find(b, "compute_bound") is None
