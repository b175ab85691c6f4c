"""Fits find constants that are known, move nothing else, and say how sure they are."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from gpuscope.hardware import Calibration, calibration_for, device
from gpuscope.measurement.bench.types import Point
from gpuscope.measurement.calibrate.cases import case_of, log_errors
from gpuscope.measurement.calibrate.fitting import LEAST_POINTS, fit_group, loss, spread
from gpuscope.measurement.calibrate.kernel_constants import kernel_constants

H200 = device("h200")
BASE = calibration_for(H200)


def product(m: int, n: int, k: int, seconds: float = 1.0, state: str = "hot") -> Point:
    params = {"dtype": "bf16", "layout": "NT", "m": m, "n": n, "k": k}
    return Point("matmul", "mm", params, state, seconds)


def true_points(values: dict[str, float], noise: float = 0.0) -> list[Point]:
    """Products that take what the model says under these constants."""
    rng = random.Random(7)
    found = []
    for size in (128, 512, 2048, 8192):
        for width in (256, 1024, 4096):
            point = product(size, width, 2048)
            case = case_of(point, H200)
            assert case is not None
            seconds = math.exp(log_errors([case], H200, values)[0])
            found.append(replace(point, median_s=seconds * math.exp(rng.gauss(0, noise))))
    return found


def values_of(calibration: Calibration) -> dict[str, float]:
    return {name: entry.value for name, entry in calibration.entries}


def test_a_slower_matrix_unit_is_found() -> None:
    slow = values_of(BASE) | {"matmul.bf16.efficiency": BASE.value("matmul.bf16.efficiency") * 0.7}
    points = true_points(slow)
    found = kernel_constants(points, H200, BASE)
    assert found["matmul.bf16.efficiency"].value == pytest.approx(
        slow["matmul.bf16.efficiency"], rel=0.05
    )
    before = loss(log_errors(cases(points), H200, values_of(BASE)))
    fitted = values_of(BASE) | {n: e.value for n, e in found.items()}
    assert loss(log_errors(cases(points), H200, fitted)) < before / 3


def cases(points: list[Point]) -> list:
    return [case for p in points if (case := case_of(p, H200)) is not None]


def test_what_is_right_stays() -> None:
    found = kernel_constants(true_points(values_of(BASE), noise=0.02), H200, BASE)
    assert not [n for n in found if not n.endswith(".scale")]


def test_noise_widens_the_interval_and_the_value_lies_in_it() -> None:
    quiet = fit(true_points(values_of(BASE), noise=0.02))
    loud = fit(true_points(values_of(BASE), noise=0.3))
    assert quiet.spread < loud.spread


def fit(points: list[Point]):
    found = fit_group(
        cases(points), H200, values_of(BASE), lambda name: name.startswith("matmul.bf16."), 4
    )
    assert found is not None
    return found


def test_few_points_change_nothing() -> None:
    few = true_points(values_of(BASE))[: LEAST_POINTS - 1]
    found = fit_group(cases(few), H200, values_of(BASE), lambda _name: True, 4)
    assert found is None


def test_a_point_of_no_model_is_passed_over() -> None:
    odd = Point("matmul", "mm", {"dtype": "bf16"}, "hot", 1e-5)
    assert case_of(odd, H200) is None
    assert case_of(Point("x", "nothing", {}, "hot", 1e-5), H200) is None
    assert case_of(replace(product(64, 64, 64), median_s=None), H200) is None


def test_a_low_clock_is_taken_into_account() -> None:
    point = product(4096, 4096, 4096)
    slow = replace(point, sm_clock_hz=H200.clock_hz / 2)
    fast_case, slow_case = case_of(point, H200), case_of(slow, H200)
    assert slow_case is not None
    assert slow_case.clock_share == pytest.approx(0.5)
    errors = log_errors([fast_case, slow_case], H200, values_of(BASE))
    assert errors[1] > errors[0] + 0.3


def test_spread_holds_four_in_five() -> None:
    errors = [0.01 * n for n in range(1, 11)]
    assert spread(errors) == pytest.approx(math.expm1(0.08))
    assert spread([]) == math.inf
