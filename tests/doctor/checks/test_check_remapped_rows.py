"""Memory rows and pages that were replaced."""

from __future__ import annotations

import pytest
from checked import findings, sorts
from wired_machines import h200, nvml

from gpuscope.doctor.machine import Recording


def rows(**changes: object) -> Recording:
    device = h200(0)
    device["remapped_rows"] = {**device["remapped_rows"], **changes}
    return nvml([device])


SPENT = {"max": 3071, "high": 0, "partial": 0, "low": 0, "none": 1}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["ok"]),
        ({"correctable": 1}, ["ok"]),
        ({"uncorrectable": 2}, ["note"]),
        ({"uncorrectable": 8, "banks_by_spare_rows": SPENT}, ["warning"]),
        ({"uncorrectable": 1, "pending": True}, ["warning"]),
        ({"uncorrectable": 9, "pending": True, "failure": True}, ["error"]),
    ],
)
def test_each_state_has_its_severity(changes: dict, expected: list[str]) -> None:
    assert sorts(findings("remapped_rows", rows(**changes))) == expected


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ({"single_bit": 1, "double_bit": 2, "pending": False}, ["ok"]),
        ({"single_bit": 1, "double_bit": 2, "pending": True}, ["warning"]),
        ({"single_bit": 30, "double_bit": 30, "pending": False}, ["warning"]),
    ],
)
def test_older_devices_retire_pages(pages: dict, expected: list[str]) -> None:
    found = findings("remapped_rows", nvml([h200(remapped_rows=None, retired_pages=pages)]))
    assert sorts(found) == expected


def test_nothing_is_said_of_devices_that_cannot() -> None:
    assert findings("remapped_rows", Recording()) == []
    assert findings("remapped_rows", nvml([h200(remapped_rows=None)])) == []
