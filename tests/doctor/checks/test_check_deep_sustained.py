from __future__ import annotations

import pytest
from deep_machines import by_severity, healthy, row

from gpuscope.doctor.checks.deep_sustained import course, deep_sustained


def test_the_power_limit_is_normal() -> None:
    found = list(deep_sustained(healthy(8)))
    assert by_severity(found) == {"ok": [None]}
    assert "held the pace for 30 s" in found[0].title
    assert "697 W of 700 W" in found[0].found
    assert "The power limit sets the clock" in found[0].found


def test_the_course_of_one() -> None:
    found = course(row(healthy(1), "deep_sustained", 0))
    assert found is not None
    assert found.late == pytest.approx(found.early)
    assert found.temperature_c == 66.0
    assert found.clock_hz == pytest.approx(1.467e9)
    assert found.reasons == {"software power cap": 1.0}
    assert found.bad_reasons == {}


def _throttle(machine, index: int, reason: str, since_s: float) -> None:
    entry = row(machine, "deep_sustained", index)
    for reading in entry["readings"]:
        if reading["at_s"] >= since_s:
            reading["reasons"] = [reason]
            reading["temperature_c"] = 91.0
    entry["windows"] = [[at, r * (0.6 if at >= since_s else 1)] for at, r in entry["windows"]]


@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        ("hardware thermal slowdown", "fans"),
        ("software thermal slowdown", "fans"),
        ("hardware power brake", "power supplies"),
    ],
)
def test_a_device_that_slows_itself_down_is_told_once_with_its_cause(reason, fix) -> None:
    machine = healthy(8)
    _throttle(machine, 2, reason, 12.0)
    found = list(deep_sustained(machine))
    assert by_severity(found) == {"warning": [2], "ok": [None]}
    assert reason in found[0].found.lower()
    assert "91 °C" in found[0].found
    assert fix in found[0].fix
    assert "7 devices" in found[1].title


def test_one_reading_is_no_reason() -> None:
    machine = healthy(2)
    row(machine, "deep_sustained", 0)["readings"][9]["reasons"] = ["hardware slowdown"]
    assert by_severity(deep_sustained(machine)) == {"ok": [None]}


def test_one_of_few_readings_is_no_reason_either() -> None:
    entry = row(healthy(1), "deep_sustained", 0)
    entry["readings"] = entry["readings"][2:12]
    entry["readings"][5]["reasons"] = ["hardware slowdown"]
    found = course(entry)
    assert found is not None
    assert found.bad_reasons == {}


def test_the_second_half_is_what_a_device_holds() -> None:
    entry = row(healthy(1), "deep_sustained", 0)
    entry["windows"] = [[float(at), 700.0 if at < 18 else 600.0] for at in range(1, 31)]
    found = course(entry)
    assert found is not None
    assert (found.early, found.late) == (700.0, 600.0)


def test_results_that_change_under_load() -> None:
    machine = healthy(4)
    row(machine, "deep_sustained", 1)["differed"] = 3
    found = list(deep_sustained(machine))
    assert by_severity(found) == {"error": [1], "ok": [None]}
    assert "3 of 119" in found[0].found


def test_the_slow_one_of_eight() -> None:
    machine = healthy(8)
    entry = row(machine, "deep_sustained", 7)
    entry["windows"] = [[at, 0.84 * rate] for at, rate in entry["windows"]]
    found = list(deep_sustained(machine))
    assert by_severity(found) == {"warning": [7], "ok": [None]}
    assert "the others are not" in found[0].title


def test_a_lowered_power_limit_lowers_what_is_asked_for() -> None:
    machine = healthy(1)
    entry = row(machine, "deep_sustained", 0)
    entry["windows"] = [[at, 460e12] for at, _ in entry["windows"]]
    assert by_severity(deep_sustained(machine)) == {"warning": [0]}
    entry["before"]["power_limit_w"] = 400.0
    assert by_severity(deep_sustained(machine)) == {"ok": [None]}


def test_slowing_down_without_a_reason_is_a_note() -> None:
    machine = healthy(1)
    entry = row(machine, "deep_sustained", 0)
    entry["windows"] = [[at, 700e12 if at < 12 else 600e12] for at, _ in entry["windows"]]
    found = list(deep_sustained(machine))
    assert by_severity(found)["note"] == [0]
    assert "86 %" in found[0].found


def test_without_sensors_rates_still_tell() -> None:
    machine = healthy(8)
    for index in range(8):
        row(machine, "deep_sustained", index)["readings"] = None
    assert by_severity(deep_sustained(machine)) == {"ok": [None]}


def test_too_few_products_are_not_judged() -> None:
    machine = healthy(1)
    row(machine, "deep_sustained", 0)["windows"] = [[20.0, 1e12], [40.0, 1e12]]
    assert by_severity(deep_sustained(machine)) == {"unknown": [0]}
