"""Energy of a step."""

from __future__ import annotations

import pytest
from builders import H200, PEAK_BF16, TimelineBuilder, matmul, streaming

from gpuscope.analysis import Energy, analyze
from gpuscope.analysis.energy import POWER_LIMITED
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
    "energy.idle_w": 80.0, "energy.pj_per_flop.bfloat16": 0.5, "energy.pj_per_byte": 50.0,
}  # fmt: skip


def test_calibrated_constants_by_hand() -> None:
    cost = matmul(100, 0.5, read_bytes=1e8)
    found = measure(one(cost, 200), calibration=CONSTANTS)
    assert found.idle_j == pytest.approx(80 * 200e-6)
    assert found.compute_j == pytest.approx(0.5e-12 * 0.5 * PEAK_BF16 * 100e-6)
    assert found.memory_j == pytest.approx(50e-12 * 1e8)
    assert found.total_j == pytest.approx(found.idle_j + found.compute_j + found.memory_j)
    assert found.average_w == pytest.approx(found.total_j / 200e-6)
    assert found.source.startswith("calibrated")


def test_running_power_counts_for_busy_time_only() -> None:
    constants = {**CONSTANTS, "energy.active_w": 100.0}
    plain = measure(one(streaming(100), 200), calibration=CONSTANTS)
    found = measure(one(streaming(100), 200), calibration=constants)
    assert found.total_j is not None
    assert plain.total_j is not None
    assert found.total_j - plain.total_j == pytest.approx(100.0 * 100e-6)


def test_a_dense_matmul_reaches_the_board_power_and_no_more() -> None:
    at_limit = measure(one(matmul(100, POWER_LIMITED, read_bytes=0.0), 100))
    beyond = measure(one(matmul(100, 1.0, read_bytes=1e8), 100))
    assert at_limit.average_w == pytest.approx(H200.tdp_w)
    assert beyond.average_w == pytest.approx(H200.tdp_w)


def test_streaming_draws_less_than_computing() -> None:
    stream, compute = measure(one(streaming(100), 100)), measure(one(matmul(100, 0.6), 100))
    assert stream.average_w is not None
    assert compute.average_w is not None
    assert H200.idle_power_w is not None
    assert H200.idle_power_w < stream.average_w < compute.average_w


def test_an_idle_device_draws_its_idle_power() -> None:
    found = measure(one(streaming(100, 1e-9), 1_000_000))
    assert found.average_w == pytest.approx(H200.idle_power_w, rel=1e-3)


def test_more_idle_time_costs_more_energy() -> None:
    short, long = measure(one(matmul(100), 100)), measure(one(matmul(100), 400))
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
