"""Units that a kernel keeps, and what the L2 cache can do: by hand."""

from __future__ import annotations

import math

import pytest
from builders import H200, kernel

from gpuscope.analysis.unit_limits import (
    L2_CONSTANTS,
    has_matrix_unit,
    l2_bytes_per_s,
    sm_share,
    unit_of,
)
from gpuscope.hardware import calibration_for, device


@pytest.mark.parametrize(
    ("grid", "waves", "share"),
    [
        (66, 0.5, 0.5),  # one block a unit, half of the units
        (132, 0.125, 1.0),  # eight fit on each, but every unit has one
        (132, 1.0, 1.0),
        (264, 2.0, 1.0),
        (198, 1.5, 0.75),  # all, then half of them
        (1, 1 / 132, 1 / 132),
    ],
)
def test_multiprocessors_with_a_block(grid: int, waves: float, share: float) -> None:
    assert sm_share(kernel(1.0, grid=grid, waves=waves), 132) == pytest.approx(share)


def test_without_grid_or_waves_nothing_is_said() -> None:
    assert math.isnan(sm_share(kernel(1.0, grid=5, waves=0.0), 132))
    assert math.isnan(sm_share(kernel(1.0, grid=0, waves=1.0), 132))


def test_the_l2_rate_is_the_calibrated_one() -> None:
    constants = calibration_for(H200)
    per_clock = max(constants.value(name) for name in L2_CONSTANTS)
    assert l2_bytes_per_s(H200, constants) == pytest.approx(per_clock * 132 * 1.98e9)
    assert l2_bytes_per_s(None, constants) is None


def test_true_float32_runs_on_the_vector_lanes() -> None:
    assert unit_of(H200, "float32") == "vector"
    assert unit_of(H200, "tf32") == unit_of(H200, "bfloat16") == "matrix"
    assert unit_of(H200, "int3") == unit_of(None, "bfloat16") == unit_of(H200, "") == ""
    assert unit_of(device("v100"), "bfloat16") == ""
    assert has_matrix_unit(device("v100"))
    assert not has_matrix_unit(None)
