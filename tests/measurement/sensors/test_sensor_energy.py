from __future__ import annotations

import pytest

from gpuscope.measurement.sensors import EnergyWindow, Reading, Replay, energy_between


def test_energy_by_hand() -> None:
    span = energy_between(Reading(10.0, energy_j=100.0), Reading(12.0, energy_j=1100.0))
    assert (span.energy_j, span.seconds, span.average_w) == (1000.0, 2.0, 500.0)
    assert span.uncertainty_j == pytest.approx(50.0)  # 500 W for 0.1 s


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (Reading(0.0, energy_j=1.0), Reading(0.99, energy_j=500.0)),  # too short
        (Reading(0.0, energy_j=5.0), Reading(2.0, energy_j=5.0)),  # stood still
        (Reading(0.0, energy_j=5.0), Reading(2.0, energy_j=1.0)),  # was reset
        (Reading(0.0), Reading(2.0, energy_j=1.0)),
        (Reading(0.0, energy_j=5.0), Reading(2.0)),
    ],
)
def test_what_cannot_be_said_is_none(first, last) -> None:
    assert energy_between(first, last) is None


def test_a_window_around_a_block() -> None:
    sensor = Replay([Reading(0.0, energy_j=0.0), Reading(4.0, energy_j=8.0)])
    with EnergyWindow(sensor) as window:
        assert window.span is None
    assert window.span.average_w == 2.0
    with EnergyWindow(None) as window:
        pass
    assert window.span is None
