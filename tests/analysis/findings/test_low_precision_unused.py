"""float32 where the matrix units could do better."""

from __future__ import annotations

import pytest
from builders import H200, PEAK_BF16, TimelineBuilder, find, matmul

from gpuscope.analysis.findings.low_precision_unused import _ways
from gpuscope.document.text import render
from gpuscope.hardware import device

PEAK_FP32 = H200.peak_flops_per_s("float32")


def single(**fields: object) -> TimelineBuilder:
    """A 100-us float32 matrix product at 80 % of the float32 peak."""
    b = TimelineBuilder()
    flops = 0.8 * PEAK_FP32 * 100e-6
    b.chain([matmul(100, dtype="float32", limiter="compute", **{"flops": flops, **fields})])
    return b


def test_float32_matmuls_could_use_the_matrix_units() -> None:
    found = find(single(), "low_precision_unused")
    assert found is not None
    floor = 0.8 * PEAK_FP32 * 100e-6 / PEAK_BF16
    assert found.max_gain_s == pytest.approx(100e-6 - floor)
    assert "autocast" in found.hint


def test_traffic_limits_the_gain() -> None:
    found = find(single(memory_s=60e-6), "low_precision_unused")
    assert found is not None
    assert found.max_gain_s == pytest.approx(70e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "tf32", "float8_e4m3fn"])
def test_smaller_dtypes_need_no_such_advice(dtype: str) -> None:
    b = TimelineBuilder()
    b.chain([matmul(100, dtype=dtype)])
    assert find(b, "low_precision_unused") is None


def test_a_device_without_faster_units_gets_no_such_advice() -> None:
    slow = device("nvidia-h200-sxm").replace(
        peak_flops_per_s={"bf16": PEAK_FP32, "fp16": PEAK_FP32, "tf32": PEAK_FP32}
    )
    assert find(single(), "low_precision_unused", device=slow) is None


def test_the_advice_is_what_the_device_has() -> None:
    both = _ways({"bfloat16": 1.0, "float16": 1.0, "tf32": 1.0})
    assert "bfloat16" in both
    assert "TF32" in both
    old = _ways({"bfloat16": None, "float16": 1.0, "tf32": None})
    assert "torch.float16" in old
    assert "GradScaler" in old
    assert "GradScaler" in render(old, "zh")
    assert "bfloat16" not in old
    assert "TF32" not in old
