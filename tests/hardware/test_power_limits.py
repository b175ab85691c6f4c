"""Power limits: which a driver takes, and what is no limit of a device."""

from __future__ import annotations

import pytest

import gpuscope as gs
from gpuscope.errors import InvalidValueError
from gpuscope.hardware.names import device_ids
from gpuscope.hardware.power_limits import _ranges, check_power_limit, limit_range_w


def test_each_range_is_a_devices_and_holds_its_usual_limit() -> None:
    for name, (least, most) in _ranges().items():
        assert name in device_ids()
        usual = gs.device(name).tdp_w
        assert usual is not None
        assert 0 < least < usual <= most


@pytest.mark.parametrize("limit_w", [199.0, 701.0, 5000.0])
def test_limits_that_the_driver_refuses(limit_w: float) -> None:
    with pytest.raises(InvalidValueError, match=r"200 W to 700 W"):
        check_power_limit(gs.device("h200"), "power_limit=1W", [500.0, limit_w])


def test_another_device_is_no_limit() -> None:
    check_power_limit(gs.device("h200"), "tdp=900W", [900.0])
    check_power_limit(gs.device("h200"), "power_limit=200..700W", [200.0, 700.0])


def test_parts_have_no_limit_of_their_own() -> None:
    for name in ("h200:1g.18gb", "h200:mps-2"):
        with pytest.raises(InvalidValueError, match="of its own"):
            check_power_limit(gs.device(name), "power_limit=300W", [300.0])


def test_without_a_stated_range_power_at_rest_is_the_least() -> None:
    """No clock brings a device below what it draws at rest."""
    found = gs.device("h200")
    assert limit_range_w(found) == (200, 700)
    other = gs.device("l40s")
    assert limit_range_w(other) == (other.idle_power_w, None)


def test_a_lower_limit_takes_longer_and_least_energy_is_told() -> None:
    from gpuscope.views.sweep import _least_energy

    options = gs.WorkloadOptions(layers=1, batch=8)
    points = gs.sweep("gpt2", "h200", "tdp_w", [300.0, 500.0, 700.0], options=options)
    times = [run.step_time_s for _, run in points]
    assert times[0] > times[1] >= times[2]
    told = _least_energy(points, "en")
    assert told is not None
    best = min(points, key=lambda point: point[1].energy_j or 0)
    assert told.startswith(f"Least energy for each token: {best[0]:.0f} W")
