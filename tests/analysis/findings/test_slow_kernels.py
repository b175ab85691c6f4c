"""Recorded kernels that take longer than their model expects."""

from __future__ import annotations

import pytest
from builders import H200, spec
from recorded_calls import Recording, Shape

from gpuscope.analysis import Finding, analyze
from gpuscope.analysis.modelled import modelled
from gpuscope.cost.types import Kernel
from gpuscope.document.text import render
from gpuscope.hardware import device as catalogue
from gpuscope.hardware.device import Device

GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"


def recording(*times_us: float) -> Recording:
    made = Recording()
    op = made.op("aten::mm", spec(4096, 4096), spec(4096, 4096))
    for time_us in times_us:
        made.call(op, (GEMM, time_us, Shape(grid=132, block=384, registers=168)))
    return made


def expected_us(device: Device = H200) -> float:
    kernels = modelled(recording(200.0).build(), device).kernels
    assert isinstance(kernels[0], Kernel)
    return kernels[0].duration_s * 1e6


def found(made: Recording, device: Device = H200) -> Finding | None:
    results = analyze(made.build(), on=device).findings
    return next((r for r in results if r.kind == "slow_kernels"), None)


def test_what_it_takes_beyond_its_model_is_the_gain() -> None:
    model = expected_us()
    result = found(recording(3 * model, model))
    assert result is not None
    assert result.max_gain_s == pytest.approx(2 * model * 1e-6, rel=1e-3)
    assert "4096x4096" in result.evidence
    assert render(result.title, "zh") != result.title
    assert render(result.evidence, "zh") != result.evidence
    assert render(result.hint, "zh")


def test_kernels_near_their_model_are_fine() -> None:
    model = expected_us()
    assert found(recording(model, 1.2 * model, 0.8 * model)) is None


def test_communication_beside_them_is_named() -> None:
    model = expected_us()
    made = recording(3 * model)
    made.shapes[0] = Shape(grid=132, block=384, registers=168)
    made.builder.work(
        1.0, 3 * model, name="ncclDevKernel_AllReduce", kind="communication", stream="stream 20"
    )
    made.shapes[1000] = Shape(grid=16)
    result = found(made)
    assert result is not None
    assert "Communication ran during" in result.evidence


def test_an_uncalibrated_device_is_no_judge() -> None:
    other = catalogue("arc-b580")
    assert found(recording(20 * expected_us(other)), other) is None
