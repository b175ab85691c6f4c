"""Whose host a prediction is for."""

from dataclasses import replace

from gpuscope.document.text import render
from gpuscope.hardware import Calibration, calibration_for, device
from gpuscope.run.figures import catalogue_host


def _own(constants: Calibration) -> Calibration:
    entries = tuple(
        (name, replace(entry, origin="calibrated") if name == "host.scale" else entry)
        for name, entry in constants.entries
    )
    return replace(constants, entries=entries)


def test_a_step_at_the_host_s_pace_says_whose_host_it_is() -> None:
    constants = calibration_for(device("h200"))
    said = catalogue_host(constants, 4e-3, 4e-3, 1e-3)
    assert said is not None
    assert "middle one" in render(said, "en")
    assert "0.6 to 1.4 times" in render(said, "en")


def test_nothing_is_said_where_the_device_sets_the_pace_or_the_host_was_benched() -> None:
    constants = calibration_for(device("h200"))
    assert catalogue_host(constants, 4e-3, 1e-3, 4e-3) is None
    assert catalogue_host(constants, 4e-3, 4e-3, 3.9e-3) is None
    assert catalogue_host(constants, 4e-3, None, 1e-3) is None
    assert catalogue_host(_own(constants), 4e-3, 4e-3, 1e-3) is None


def test_hosts_differ_alike_in_front_of_every_device() -> None:
    here = calibration_for(device("h200")).entry("host.scale")
    for other in ("h100", "a100", "l4", "mi300x"):
        assert calibration_for(device(other)).entry("host.scale").high == here.high
