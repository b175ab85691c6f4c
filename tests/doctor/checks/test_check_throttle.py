"""Clocks that are held down, now and before."""

from __future__ import annotations

import pytest
from checked import findings, sorts, the
from wired_machines import h200, nvml

from gpuscope.doctor.machine import Recording


@pytest.mark.parametrize(
    "reasons", [[], ["gpu_idle"], ["applications_clocks_setting"], ["sw_power_cap"]]
)
def test_what_is_usual_is_not_blamed(reasons: list[str]) -> None:
    assert sorts(findings("throttle", nvml([h200(clocks_event_reasons=reasons)]))) == ["ok"]


def test_a_power_cap_under_load_is_said() -> None:
    devices = [h200(i, clocks_event_reasons=["sw_power_cap"] if i < 2 else []) for i in range(4)]
    only = the(findings("throttle", nvml(devices)), "ok")
    assert only.values == {"power_capped_devices": 2}
    assert "GPUs 0-1" in only.found


@pytest.mark.parametrize(
    ("reasons", "word"),
    [
        (["hw_slowdown", "hw_thermal_slowdown"], "too hot"),
        (["sw_thermal_slowdown"], "too hot"),
        (["hw_slowdown", "hw_power_brake_slowdown"], "power brake"),
        (["hw_slowdown"], "protects itself"),
    ],
)
def test_faults_are_told_by_their_cause(reasons: list[str], word: str) -> None:
    ill = nvml([h200(0), h200(1, clocks_event_reasons=reasons)])
    told = the(findings("throttle", ill), "warning")
    assert told.device == 1
    assert word in told.title
    assert told.fix is not None
    assert ("cooling" in told.fix) == ("hot" in word)


@pytest.mark.parametrize(("seconds", "count"), [(0.0, 0), (9.9, 0), (10.0, 1), (3600.0, 1)])
def test_time_held_down_before_is_a_note(seconds: float, count: int) -> None:
    held = {"power": 1e6, "thermal": seconds, "board_limit": None}
    found = findings("throttle", nvml([h200(violation_time_s=held)]))
    assert sorts(found).count("note") == count
    assert "warning" not in sorts(found)


def test_nothing_is_said_where_nothing_is_told() -> None:
    assert findings("throttle", Recording()) == []
    assert findings("throttle", nvml([h200(clocks_event_reasons=None, violation_time_s={})])) == []
