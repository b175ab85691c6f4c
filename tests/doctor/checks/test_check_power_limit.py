"""Power limits below the default."""

from __future__ import annotations

import pytest
from checked import findings, sorts, the
from wired_machines import h200, nvml

from gpuscope.doctor.machine import Recording


def limited(index: int, watts: float, key: str = "limit_w") -> dict:
    device = h200(index)
    device["power"] = {**device["power"], key: watts}
    return device


@pytest.mark.parametrize(("watts", "expected"), [(700, "ok"), (690, "ok"), (680, "warning")])
def test_a_limit_below_the_default_is_told(watts: float, expected: str) -> None:
    assert sorts(findings("power_limit", nvml([limited(0, watts)]))) == [expected]


def test_equal_devices_are_one_finding_with_one_command() -> None:
    told = the(findings("power_limit", nvml([limited(i, 500) for i in range(8)])), "warning")
    assert told.values == {"limit_w": 500, "default_limit_w": 700.0, "devices": 8}
    assert told.commands == ("sudo nvidia-smi -i 0,1,2,3,4,5,6,7 -pl 700",)
    assert told.device is None


def test_the_limit_in_force_counts() -> None:
    told = the(findings("power_limit", nvml([limited(0, 350, "enforced_limit_w")])), "warning")
    assert told.values["limit_w"] == 350


def test_nothing_is_said_where_nothing_is_told() -> None:
    assert findings("power_limit", Recording()) == []
    assert findings("power_limit", nvml([h200(power={"limit_w": None})])) == []
    unknown = nvml([h200(power={"limit_w": 300.0, "default_limit_w": None})])
    assert sorts(findings("power_limit", unknown)) == ["ok"]
