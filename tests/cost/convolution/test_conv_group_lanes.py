"""Float32 convolutions of one group on the vector lanes."""

from __future__ import annotations

import pytest
from matmul_work import dense

from gpuscope.cost.convolution.group_lanes import lanes_s
from gpuscope.cost.registry import Constants, Work
from gpuscope.hardware import calibration_for, device
from gpuscope.program.types import Op

H200 = device("h200")
WORK = Work(
    Op(0, "aten::convolution", inputs=(dense(1),), outputs=(dense(1),)),
    H200,
    Constants(calibration_for(H200)),
)


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "recorded_us"),
    [
        (1024, 32, 288, 9.2),
        (1024, 128, 1152, 47.2),
        (256, 512, 4608, 201.7),
        (576, 48, 216, 7.5),
        (4096, 64, 576, 33.7),
        (16384, 32, 288, 24.1),
    ],
)
def test_times_are_near_the_recorded(
    rows: int, columns: int, depth: int, recorded_us: float
) -> None:
    assert lanes_s(WORK, rows, columns, depth) * 1e6 == pytest.approx(recorded_us, rel=0.25)


def test_a_deeper_sum_waits_longer_whatever_the_rows() -> None:
    floor_s = WORK.constants.value("convolution.lanes.floor_s")
    one, two = (lanes_s(WORK, 32, 32, depth) - floor_s for depth in (256, 512))
    assert two == pytest.approx(2 * one)


def test_many_tiles_go_with_their_number() -> None:
    one, two = (lanes_s(WORK, rows, 64, 256) for rows in (2**18, 2**19))
    assert two == pytest.approx(2 * one, rel=0.05)
