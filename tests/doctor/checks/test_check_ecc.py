"""Memory errors, now and before, and the mode."""

from __future__ import annotations

import pytest
from checked import findings, sorts, the
from wired_machines import h200, nvml

from gpuscope.doctor.machine import Recording


def counted(**changes: int | bool | None) -> Recording:
    device = h200(0)
    device["ecc"] = {**device["ecc"], **changes}
    return nvml([device, h200(1)])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["ok"]),
        ({"volatile_corrected": 999}, ["ok"]),
        ({"volatile_corrected": 1000}, ["note"]),
        ({"aggregate_uncorrected": 3}, ["note"]),
        ({"volatile_uncorrected": 1, "aggregate_uncorrected": 1}, ["error"]),
        ({"mode_pending": False}, ["note"]),
        ({"mode": False, "mode_pending": False}, ["note"]),
        ({"mode": None, "mode_pending": None}, ["ok"]),
    ],
)
def test_each_state_has_its_severity(changes: dict, expected: list[str]) -> None:
    assert sorts(findings("ecc", counted(**changes))) == expected


def test_errors_of_today_are_told_with_their_device() -> None:
    told = the(findings("ecc", counted(volatile_uncorrected=2, aggregate_uncorrected=7)), "error")
    assert told.device == 0
    assert told.values["volatile_uncorrected"] == 2
    assert "--gpu-reset -i 0" in told.commands[0]


def test_nothing_is_said_of_devices_without_ecc() -> None:
    assert findings("ecc", Recording()) == []
    assert findings("ecc", nvml([h200(ecc={"mode": None})])) == []
