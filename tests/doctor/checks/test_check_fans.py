"""Fans of devices that have their own."""

from __future__ import annotations

import pytest
from checked import findings, sorts
from wired_machines import h200, nvml

from gpuscope.doctor.machine import Recording


@pytest.mark.parametrize(
    ("speeds", "warm", "expected"),
    [
        ([], 80, []),
        ([None], 80, []),
        ([0, 0], 40, ["ok"]),
        ([60, 62], 75, ["ok"]),
        ([0, 80], 75, ["warning"]),
        ([100, 98], 82, ["note"]),
        ([50], None, ["ok"]),
    ],
)
def test_each_state_has_its_severity(
    speeds: list[int | None], warm: float | None, expected: list[str]
) -> None:
    found = findings("fans", nvml([h200(fans=speeds, temperature={"gpu_c": warm})]))
    assert sorts(found) == expected


def test_nothing_is_said_without_devices() -> None:
    assert findings("fans", Recording()) == []
