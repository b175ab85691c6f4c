"""Clocks that were set low."""

from __future__ import annotations

import pytest
from checked import findings, sorts, the
from wired_machines import h200, nvml

from gpuscope.doctor.machine import Recording


def clocked(index: int = 0, busy: int = 0, reasons: tuple[str, ...] = (), **mhz: float) -> dict:
    device = h200(index, clocks_event_reasons=list(reasons))
    device["clocks"] = {**device["clocks"], **mhz}
    device["utilization"] = {"gpu_percent": busy, "memory_percent": 0}
    return device


def test_an_idle_device_at_a_low_clock_is_well() -> None:
    assert sorts(findings("clocks", nvml([clocked(sm_mhz=345)]))) == ["ok"]


@pytest.mark.parametrize("part", ["graphics", "memory"])
def test_application_clocks_below_the_default_are_told(part: str) -> None:
    mhz = {f"application_{part}_mhz": 1000.0}
    told = the(findings("clocks", nvml([clocked(0, **mhz), clocked(1)])), "warning")
    assert told.device == 0
    assert told.values["clock_mhz"] == 1000


def test_a_busy_device_at_a_low_clock_without_reason_is_told() -> None:
    locked = clocked(busy=100, sm_mhz=1200)
    told = the(findings("clocks", nvml([locked])), "warning")
    assert told.values == {"clock_mhz": 1200, "max_clock_mhz": 1980}


@pytest.mark.parametrize(
    ("busy", "mhz", "reasons"), [(100, 1900, ()), (50, 1200, ()), (100, 1200, ("sw_power_cap",))]
)
def test_others_are_not(busy: int, mhz: float, reasons: tuple[str, ...]) -> None:
    found = findings("clocks", nvml([clocked(busy=busy, reasons=reasons, sm_mhz=mhz)]))
    assert sorts(found) == ["ok"]


def test_nothing_is_said_where_nothing_is_told() -> None:
    assert findings("clocks", Recording()) == []
    assert findings("clocks", nvml([h200(clocks={})])) == []
