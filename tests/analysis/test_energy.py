"""Energy of a step."""

from __future__ import annotations

import pytest
from builders import H200, PEAK_BF16, TimelineBuilder, matmul, streaming

from gpuscope.analysis import Energy, analyze
from gpuscope.analysis.energy import MATRIX_LIMIT, REST_SHARE
from gpuscope.hardware import device
from gpuscope.hardware.device import Device


def measure(builder: TimelineBuilder, on: Device = H200, **options: object) -> Energy:
    found = analyze(builder.build(), device=on, **options).energy  # type: ignore[arg-type]
    assert found is not None
    return found


def one(cost: object, step_us: float) -> TimelineBuilder:
    b = TimelineBuilder()
    b.work(0, 100, cost=cost)  # type: ignore[arg-type]
    b.step(0, step_us)
    return b


CONSTANTS = {
    "energy.idle_w": 80.0, "energy.active_w": 200.0, "energy.pj_per_flop.bfloat16": 0.5,
    "energy.pj_per_byte": 50.0,
}  # fmt: skip


def test_calibrated_constants_by_hand() -> None:
    cost = matmul(100, 0.2, read_bytes=1e8)
    found = measure(one(cost, 200), calibration=CONSTANTS)
    assert found.idle_j == pytest.approx(80 * 200e-6)
    assert found.active_j == pytest.approx(200 * 100e-6)
    assert found.compute_j == pytest.approx(0.5e-12 * 0.2 * PEAK_BF16 * 100e-6)
    assert found.memory_j == pytest.approx(50e-12 * 1e8)
    parts = (found.idle_j, found.active_j, found.compute_j, found.memory_j)
    assert found.total_j == pytest.approx(sum(part or 0.0 for part in parts))
    assert found.average_w == pytest.approx((found.total_j or 0.0) / 200e-6)
    assert found.source.startswith("calibrated")


def test_a_dense_matmul_reaches_the_board_power_and_no_more() -> None:
    at_limit = measure(one(matmul(100, MATRIX_LIMIT, read_bytes=0.0), 100))
    beyond = measure(one(matmul(100, 0.8, read_bytes=1e8), 100))
    assert at_limit.average_w == pytest.approx(H200.tdp_w)
    assert beyond.average_w == pytest.approx(H200.tdp_w)
    assert beyond.idle_j == pytest.approx(at_limit.idle_j)


def test_a_measured_training_step_is_met() -> None:
    # Llama 3.2 1B, batch 4 x 2048, bf16, on an H200: 171.45 ms, 165.75 ms of kernels, 114.6 J.
    flops, nbytes = 6.46e13, 2.51e11
    b = TimelineBuilder()
    cost = matmul(165_746, flops=flops, read_bytes=nbytes)
    b.work(0, 165_746, cost=cost)
    b.step(0, 171_453)
    assert measure(b).total_j == pytest.approx(114.6, rel=0.07)


def test_a_measured_host_bound_step_is_met() -> None:
    # GPT-2 decoding one token on an H200: 4.036 ms, of which 0.69 ms of kernels, 0.548 J.
    b = TimelineBuilder()
    b.work(0, 690, cost=matmul(690, flops=2.66e8, read_bytes=3.84e8))
    b.step(0, 4036)
    assert measure(b).total_j == pytest.approx(0.548, rel=0.05)


def test_more_traffic_draws_more() -> None:
    slow, fast = measure(one(streaming(100, 0.2), 100)), measure(one(streaming(100, 0.9), 100))
    assert slow.average_w is not None
    assert fast.average_w is not None
    assert H200.tdp_w is not None
    assert slow.average_w < fast.average_w < H200.tdp_w


def test_a_waiting_device_draws_its_power_at_rest() -> None:
    found = measure(one(streaming(100, 1e-9), 1_000_000))
    assert found.average_w == pytest.approx(REST_SHARE * (H200.tdp_w or 0.0), rel=1e-3)


def test_more_idle_time_costs_more_energy() -> None:
    short, long = measure(one(matmul(100, 0.3), 100)), measure(one(matmul(100, 0.3), 400))
    assert short.total_j is not None
    assert long.total_j is not None
    assert long.total_j > short.total_j
    assert long.compute_j == pytest.approx(short.compute_j)


def test_cost_is_the_price_of_the_step() -> None:
    priced = device("nvidia-h200-sxm")
    found = measure(one(matmul(100), 3_600_000), priced)
    assert priced.price_usd_per_hour is not None
    assert found.cost_usd == pytest.approx(priced.price_usd_per_hour / 1000)


def test_a_device_without_power_figures_has_no_energy() -> None:
    found = measure(one(matmul(100), 100), device("apple-m1"))
    assert found.total_j is None
    assert found.source.startswith("not available")


def test_no_device_no_energy() -> None:
    assert analyze(one(matmul(100), 100).build()).energy is None
