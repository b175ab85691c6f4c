from __future__ import annotations

from memory_work import dense

from gpuscope.cost.fallback import NOTE, bandwidth_bound
from gpuscope.cost.registry import Constants, Work
from gpuscope.hardware import calibration_for, device
from gpuscope.program.types import Op


def test_an_unknown_operator_moves_its_bytes_with_a_wide_interval() -> None:
    h200 = device("h200")
    op = Op(0, "custom::mystery", inputs=(dense(2**26),), outputs=(dense(2**26),))
    (made,) = bandwidth_bound(Work(op, h200, Constants(calibration_for(h200))))
    assert made.least_bytes == 2 * 2**28
    assert made.duration_s > 2 * 2**28 / 4.8e12
    assert made.high_s / made.low_s > 10
    assert made.note == NOTE
    assert made.origin == "estimated"


def test_nothing_on_the_device_launches_nothing() -> None:
    h200 = device("h200")
    work = Work(Op(0, "custom::mystery"), h200, Constants(calibration_for(h200)))
    assert bandwidth_bound(work) == ()
