"""Persistence mode."""

from __future__ import annotations

from checked import findings, sorts, the
from wired_machines import h200, nvml

from gpuscope.doctor.machine import Recording


def test_on_is_well_and_off_is_a_note_with_its_devices() -> None:
    assert sorts(findings("persistence", nvml([h200(0), h200(1)]))) == ["ok"]
    mixed = nvml([h200(0), h200(1, persistence_mode=False), h200(2, persistence_mode=False)])
    told = the(findings("persistence", mixed), "note")
    assert "GPUs 1-2" in told.title
    assert told.values == {"devices_off": 2}


def test_nothing_is_said_where_nothing_is_told() -> None:
    assert findings("persistence", Recording()) == []
    assert findings("persistence", nvml([h200(persistence_mode=None)])) == []
