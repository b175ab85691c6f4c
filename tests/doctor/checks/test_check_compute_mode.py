"""Compute modes that keep processes out."""

from __future__ import annotations

import pytest
from checked import findings, sorts
from wired_machines import h200, nvml

from gpuscope.doctor.machine import Recording


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("default", []), (None, []), ("exclusive_process", ["note"]), ("prohibited", ["error"])],
)
def test_each_mode_has_its_severity(mode: str | None, expected: list[str]) -> None:
    assert sorts(findings("compute_mode", nvml([h200(compute_mode=mode)]))) == expected


def test_devices_of_one_mode_are_one_finding() -> None:
    ill = nvml([h200(i, compute_mode="prohibited") for i in range(3)])
    found = findings("compute_mode", ill)
    assert len(found) == 1
    assert found[0].device is None
    assert found[0].commands == ("sudo nvidia-smi -i 0,1,2 -c DEFAULT",)
    assert findings("compute_mode", Recording()) == []
