"""Energy of a step."""

from __future__ import annotations

import pytest
from builders import BANDWIDTH, H200, PEAK_BF16, TimelineBuilder, kernel, matmul, streaming

from gpuscope.analysis import Energy, analyze
from gpuscope.cost.power import power_model
from gpuscope.hardware import CalibratedValue, Calibration, Distance, calibration_for, device
from gpuscope.hardware.device import Device

BOARD_W = H200.require("tdp_w")
SHARES = {
    "power.idle_share": 0.2,
    "power.active_share": 0.1,
    "power.vector_share": 0.3,
    "power.flop_share.bf16": 0.5,
    "power.byte_factor": 2.0,
    "power.l2_byte_factor": 1.0,
    "power.limit_share": 1.0,
}
CONSTANTS = Calibration(
    H200.id,
    H200.id,
    Distance.SAME_DEVICE,
    "",
    tuple(sorted((n, CalibratedValue(v, "1", "calibrated", v, v)) for n, v in SHARES.items())),
)


def measure(builder: TimelineBuilder, on: Device = H200, **options: object) -> Energy:
    found = analyze(builder.build(), on=on, **options).energy  # type: ignore[arg-type]
    assert found is not None
    return found


def one(cost: object, step_us: float) -> TimelineBuilder:
    b = TimelineBuilder()
    b.work(0, 100, cost=cost)  # type: ignore[arg-type]
    b.step(0, step_us)
    return b


def test_a_product_by_hand() -> None:
    found = measure(one(matmul(100, 0.2, read_bytes=1e8), 200), calibration=CONSTANTS)
    assert found.idle_j == pytest.approx(0.2 * BOARD_W * 200e-6)
    assert found.compute_j == pytest.approx(BOARD_W * (0.5 * 0.2 + 0.1) * 100e-6)
    assert found.memory_j == pytest.approx(2.0 * 48e-12 * 1e8)
    assert found.active_j == 0.0
    parts = (found.idle_j, found.active_j, found.compute_j, found.memory_j)
    assert found.total_j == pytest.approx(sum(part or 0.0 for part in parts))
    assert found.average_w == pytest.approx((found.total_j or 0.0) / 200e-6)
    assert found.source.startswith("calibrated")


def test_a_vector_kernel_pays_for_the_time_it_issues() -> None:
    cost = kernel(100, compute_s=40e-6, dtype="bfloat16", least_bytes=3e6)
    found = measure(one(cost, 200), calibration=CONSTANTS)
    assert found.active_j == pytest.approx(
        BOARD_W * (0.3 * 40e-6 + 0.1 * 99e-6) + 1.0 * 48e-12 * 3e6
    )
    assert found.compute_j == 0.0


def test_no_more_than_the_power_limit() -> None:
    beyond = measure(one(matmul(100, 0.9, read_bytes=1e8), 100))
    model = power_model(H200, calibration_for(H200))
    assert model is not None
    assert beyond.average_w == pytest.approx(model.limit_w)
    assert beyond.idle_j == pytest.approx(model.idle_w * 100e-6)


def test_a_steady_copy_draws_what_was_measured() -> None:
    # 2 x 2 GiB copied in 1.004 ms, all day long: 593, 609 and 633 W on three H200s; an addition of
    # the same traffic drew 672 W.
    cost = streaming(100, 4.276e12 / BANDWIDTH, compute_s=21e-6)
    assert measure(one(cost, 100)).average_w == pytest.approx(633, rel=0.07)


def test_a_device_that_rests_half_of_the_time_draws_less() -> None:
    # bf16 products in a quarter of the time (198 TFLOP/s on average): 309 W on an H200.
    flops = 198e12 * 400e-6
    of_peak = flops / (PEAK_BF16 * 100e-6)
    found = measure(one(matmul(100, of_peak, read_bytes=0.186e12 * 400e-6), 400))
    assert found.average_w == pytest.approx(309, rel=0.05)


def test_more_traffic_draws_more() -> None:
    slow, fast = measure(one(streaming(100, 0.2), 100)), measure(one(streaming(100, 0.9), 100))
    assert slow.average_w is not None
    assert fast.average_w is not None
    assert slow.average_w < fast.average_w < BOARD_W


def test_a_waiting_device_draws_its_power_at_rest() -> None:
    found = measure(one(streaming(100, 1e-9), 1_000_000))
    assert found.average_w == pytest.approx(121, rel=0.02)


def test_more_idle_time_costs_more_energy() -> None:
    short, long = measure(one(matmul(100, 0.3), 100)), measure(one(matmul(100, 0.3), 400))
    assert short.total_j is not None
    assert long.total_j is not None
    assert long.total_j > short.total_j
    assert long.compute_j == pytest.approx(short.compute_j)


def test_another_device_is_an_estimate_by_board_power() -> None:
    found = measure(one(matmul(100, 0.3), 200), device("a100-sxm"))
    assert found.source.startswith("estimated from the board power of 400 W")
    assert found.idle_j == pytest.approx(121 / 700 * 400 * 200e-6, rel=0.02)


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
