from __future__ import annotations

import pytest
from deep_machines import answer, by_severity, healthy, row

from gpuscope.doctor.checks.deep_products import deep_products, is_rounding

WRONG = {
    "wrong": 1,
    "wrong_results": 1,
    "same_each_time": False,
    "largest_deviation": 0.5,
    "row": 7,
    "column": 9,
    "got": "12.0",
    "expected": "8.0",
    "flipped_bits": 1,
}


def test_rates_of_the_healthy_are_told() -> None:
    found = list(deep_products(healthy(8)))
    assert by_severity(found) == {"ok": [None]}
    assert found[0].values["bf16_flops_per_s"] == pytest.approx(720e12, rel=0.02)
    assert "7 precisions" in found[0].title


def test_one_wrong_element_in_one_product_is_an_error() -> None:
    machine = healthy(8)
    row(machine, "deep_products", 6)["products"]["tf32"] |= WRONG
    found = list(deep_products(machine))
    assert by_severity(found) == {"error": [6], "ok": [None]}
    assert "row 7, column 9: 12.0 instead of 8.0" in found[0].found
    assert found[0].values == {"tf32_wrong_elements": 1}
    assert found[1].values["devices_right"] == 7


def test_the_same_wrong_element_each_time_is_a_part_that_sticks() -> None:
    machine = healthy(2)
    one = row(machine, "deep_products", 1)["products"]["fp32"]
    one |= {**WRONG, "wrong": 20, "wrong_results": 20, "same_each_time": True}
    found = list(deep_products(machine))
    assert by_severity(found)["error"] == [1]
    assert "stuck" in found[0].why


def _rounded(machine, index: int) -> None:
    one = row(machine, "deep_products", index)["products"]["fp8"]
    one |= {
        **WRONG,
        "wrong": 20 * 5000,
        "wrong_results": 20,
        "same_each_time": True,
        "largest_deviation": 0.004,
    }


def test_sums_that_a_library_rounds_are_no_fault() -> None:
    machine = healthy(4)
    for index in range(4):
        _rounded(machine, index)
    found = list(deep_products(machine))
    assert by_severity(found) == {"note": [None], "ok": [None]}
    assert "fp8" in found[0].title


def test_the_same_deviations_on_one_device_alone_are_a_fault() -> None:
    machine = healthy(4)
    _rounded(machine, 2)
    assert by_severity(deep_products(machine))["error"] == [2]


def test_deviations_that_differ_from_device_to_device_are_a_fault() -> None:
    machine = healthy(2)
    for index in range(2):
        _rounded(machine, index)
    row(machine, "deep_products", 1)["products"]["fp8"]["wrong"] += 20 * 7
    assert by_severity(deep_products(machine))["error"] == [0, 1]


@pytest.mark.parametrize(
    "change", [{"same_each_time": False}, {"largest_deviation": 0.5}, {"wrong": 20}]
)
def test_what_is_no_rounding(change) -> None:
    base = {
        "repeats": 20,
        "elements": 20 * 10**6,
        "wrong": 20 * 5000,
        "same_each_time": True,
        "largest_deviation": 0.004,
    }
    assert is_rounding({0: base})
    assert not is_rounding({0: base | change})


def test_the_slow_one_of_eight_is_named() -> None:
    machine = healthy(8)
    for one in row(machine, "deep_products", 4)["products"].values():
        one["flops_per_s"] *= 0.8
    found = list(deep_products(machine))
    assert by_severity(found) == {"warning": [4], "ok": [None]}
    assert "the others are not" in found[0].title
    assert "of what the other devices reach" in found[0].found


def test_a_lone_device_at_half_its_rate_is_slow_by_the_model() -> None:
    machine = healthy(1)
    row(machine, "deep_products", 0)["products"]["bf16"]["flops_per_s"] /= 2
    found = list(deep_products(machine))
    assert by_severity(found) == {"warning": [0]}
    assert "calibrated" in found[0].found
    assert found[0].values["bf16_flops_per_s"] == pytest.approx(360e12, rel=0.02)


def test_a_precision_that_the_device_lacks_is_left_out() -> None:
    machine = healthy(2)
    for index in range(2):
        row(machine, "deep_products", index)["products"]["fp8"] = {"unsupported": "no"}
    found = list(deep_products(machine))
    assert by_severity(found) == {"ok": [None]}
    assert "6 precisions" in found[0].title


def test_a_wrong_host_is_told_instead_of_blaming_devices() -> None:
    machine = healthy(2)
    answer(machine, "deep_products")["host_wrong"] = True
    found = list(deep_products(machine))
    assert by_severity(found) == {"error": [None]}
    assert "host" in found[0].title
