"""Collectives: known latencies and shares come back; only what the device timed counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.hardware import Calibration, calibration_for, device
from gpuscope.measurement.bench.types import Point
from gpuscope.measurement.calibrate.cases import trial
from gpuscope.measurement.calibrate.collective_constants import (
    collective_case,
    collective_constants,
)

H200 = device("h200")
TRUE = {
    "collective.LL.base_s": 8e-6,
    "collective.LL.link_s": 0.7e-6,
    "collective.LL128.base_s": 2e-5,
    "collective.LL128.link_s": 5e-7,
    "collective.Simple.base_s": 3e-5,
    "collective.Simple.link_s": 1e-6,
    "collective.all_reduce.efficiency_4": 0.65,
    "collective.all_gather.efficiency_4": 0.72,
}


def made(family: str) -> list[Point]:
    found = []
    for power in range(10, 31, 1):
        point = Point("collectives", family, {"ranks": 4, "bytes": 2**power}, "queued", 1.0)
        case = collective_case(point)
        assert case is not None
        seconds = sum(k.duration_s for k in case.kernels(H200, trial(H200, TRUE)))
        found.append(replace(point, median_s=seconds))
    return found


def test_shares_of_large_messages_come_back() -> None:
    points = made("all_reduce") + made("all_gather")
    found = collective_constants(points, H200, Calibration(H200.id, None, "none"))
    for name in ("collective.all_reduce.efficiency_4", "collective.all_gather.efficiency_4"):
        assert found[name].value == pytest.approx(TRUE[name], rel=0.05)
    assert found["collective.scale"].spread < 0.15


def test_a_loop_that_the_host_paces_does_not_count() -> None:
    point = Point("collectives", "all_reduce", {"ranks": 4, "bytes": 1024}, "loop", 3e-5)
    assert collective_case(point) is None
    assert collective_case(replace(point, state="queued", family="barrier")) is None


def test_few_collectives_say_nothing() -> None:
    assert collective_constants(made("all_reduce")[:3], H200, Calibration("x", None, "none")) == {}


def test_what_a_short_bench_cannot_tell_is_taken_over_from_the_same_device() -> None:
    found = collective_constants(made("all_reduce"), H200, calibration_for(H200))
    for name in ("collective.protocols.measured", "collective.rate.growth", "collective.LL.share"):
        assert found[name].value == calibration_for(H200).value(name)
    assert not any(name.startswith("collective.overlap") for name in found)
