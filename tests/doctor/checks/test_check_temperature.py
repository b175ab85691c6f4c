"""Devices that are too hot, or hotter than their like."""

from __future__ import annotations

import pytest
from checked import findings, sorts, the
from wired_machines import h200, nvml

from gpuscope.doctor.machine import Recording


def warm(index: int = 0, chip: float = 31, memory: float | None = 36, busy: int = 0) -> dict:
    device = h200(index, utilization={"gpu_percent": busy, "memory_percent": 0})
    device["temperature"] = {**device["temperature"], "gpu_c": chip, "memory_c": memory}
    return device


def test_cool_devices_are_told_in_one_line() -> None:
    only = the(findings("temperature", nvml([warm(0, 31), warm(1, 35)])), "ok")
    assert "31-35 °C" in only.found


@pytest.mark.parametrize(("chip", "expected"), [(82, "ok"), (83, "warning"), (88, "warning")])
def test_a_chip_near_its_limit_of_87(chip: float, expected: str) -> None:
    assert sorts(findings("temperature", nvml([warm(0, chip)]))) == [expected]


def test_memory_has_a_limit_of_its_own() -> None:
    told = the(findings("temperature", nvml([warm(0, 60, 95)])), "warning")
    assert told.values == {"temperature_c": 95, "limit_c": 95}
    assert "at its temperature limit" in told.title


def test_one_that_is_hotter_than_its_like_is_named() -> None:
    devices = [warm(i, 80 if i == 5 else 60, busy=99) for i in range(8)]
    assert the(findings("temperature", nvml(devices)), "note").device == 5


def test_one_that_works_while_others_rest_is_not_blamed() -> None:
    devices = [warm(i, 80 if i == 5 else 35, busy=99 if i == 5 else 0) for i in range(8)]
    assert sorts(findings("temperature", nvml(devices))) == ["ok"]


def test_nothing_is_said_where_nothing_is_told() -> None:
    assert findings("temperature", Recording()) == []
    assert findings("temperature", nvml([h200(temperature={})])) == []
