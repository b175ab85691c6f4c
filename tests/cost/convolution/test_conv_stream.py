"""Kernels of convolutions that only move what they read."""

from __future__ import annotations

import pytest
from matmul_work import dense

from gpuscope.cost.convolution.stream import paced, stream
from gpuscope.cost.registry import Constants, Work
from gpuscope.hardware import calibration_for, device
from gpuscope.program.types import Op

H200 = device("h200")
WORK = Work(Op(0, "aten::convolution", (dense(1),), ()), H200, Constants(calibration_for(H200)))


def test_bytes_set_the_pace_beyond_a_floor() -> None:
    one, ten = (stream(WORK, "copy", n, n, "float32", 1) for n in (1e9, 1e10))
    assert ten.duration_s == pytest.approx(10 * one.duration_s, rel=0.01)
    assert one.memory_s > 2e9 / H200.memory_bandwidth_bytes_per_s
    assert stream(WORK, "copy", 8, 8, "float32", 1).limiter == "latency"


def test_elements_set_it_where_they_take_longer() -> None:
    kernel = stream(WORK, "copy", 1e9, 1e9, "float32", 1)
    assert paced(WORK, kernel, 1e3, "convert").duration_s == kernel.duration_s
    slow = paced(WORK, kernel, 1e12, "convert")
    assert slow.duration_s - slow.compute_s == pytest.approx(kernel.duration_s - kernel.memory_s)
    base = paced(WORK, kernel, 1e3, "convert", 1e-6)
    assert base.duration_s == pytest.approx(kernel.duration_s + 1e-6)
