"""Products that last as long as something else."""

from __future__ import annotations

import pytest

from gpuscope.cost.registry import Constants
from gpuscope.explanation.equal_work import product_as_long, square_product
from gpuscope.hardware import calibration_for, device

H200 = device("h200")
CONSTANTS = Constants(calibration_for(H200))


@pytest.mark.parametrize("time_s", [1e-6, 1e-4, 1e-2, 1.0])
def test_the_product_is_the_smallest_that_lasts_so_long(time_s: float) -> None:
    found = product_as_long(H200, CONSTANTS, "bf16", time_s)
    assert found is not None
    assert found.time_s >= time_s
    assert found.side % 64 == 0
    if found.side > 64:
        smaller = square_product(H200, CONSTANTS, "bf16", found.side - 64)
        assert smaller is not None
        assert smaller.time_s < time_s


def test_a_large_product_runs_below_the_peak() -> None:
    found = square_product(H200, CONSTANTS, "bf16", 8192)
    assert found is not None
    assert found.flops == 2 * 8192**3
    assert 0.5 < found.flops / found.time_s / H200.peak_flops_per_s("bf16") < 1.0


def test_none_where_the_device_cannot() -> None:
    a100 = device("a100")
    constants = Constants(calibration_for(a100))
    assert square_product(a100, constants, "fp8", 4096) is None
    assert product_as_long(a100, constants, "fp8", 1e-3) is None
    assert square_product(H200, CONSTANTS, "fp4", 4096) is None
    assert product_as_long(H200, CONSTANTS, "bf16", 1e9) is None
