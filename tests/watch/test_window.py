"""The last seconds in figures, by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watch_samples import device, idle, samples, training

from gpuscope.watch.types import Activity
from gpuscope.watch.window import (
    PCIE_LANE_BYTES_PER_S,
    links_peak_bytes_per_s,
    mean,
    nvlink_of,
    pcie_peak_bytes_per_s,
    window_of,
)


def test_means_by_hand() -> None:
    busy = [0.0, 1.0, 0.5, 0.5]
    w = window_of(samples(lambda n: device(utilisation=busy[n], power_w=100.0 * n), 4), 0)
    assert (w.n, w.seconds) == (4, 3.0)
    assert w.busy == 0.5
    assert w.swing == pytest.approx((0.5 + 0.5) / 4 / 0.5)
    assert w.power_w == 150.0
    assert w.power_share == pytest.approx(150 / 700)


def test_the_link_s_rate_is_the_fastest_seen() -> None:
    """A link that rests falls to generation 1; its share is of what it can do."""
    w = window_of(
        samples(
            lambda n: device(
                0, Activity(pcie_rx_bytes_per_s=6.3e9), pcie_generation=5 if n == 2 else 1
            ),
            5,
        ),
        0,
    )
    assert w.pcie_rx_share == pytest.approx(0.1, rel=0.01)


def test_pcie_rates_are_the_specification_s() -> None:
    assert PCIE_LANE_BYTES_PER_S[3] * 16 == pytest.approx(15.75e9, rel=1e-3)
    assert pcie_peak_bytes_per_s(device()) == pytest.approx(63.0e9, rel=1e-3)
    assert pcie_peak_bytes_per_s(device(pcie_width=None)) is None
    assert pcie_peak_bytes_per_s(device(pcie_generation=99)) is None


@pytest.mark.parametrize(
    ("reasons", "power_w", "heat", "power"),
    [
        (("software thermal slowdown",), 600.0, 1.0, 0.0),
        (("software power cap",), 699.0, 0.0, 1.0),
        (("hardware slowdown",), 699.0, 0.0, 1.0),  # at its power limit: for power
        (("hardware slowdown",), 300.0, 1.0, 0.0),
        (("application clocks",), 600.0, 0.0, 0.0),
        ((), 600.0, 0.0, 0.0),
    ],
)
def test_reasons_are_heat_or_power(reasons, power_w, heat, power) -> None:
    w = window_of(samples(lambda n: device(throttle_reasons=reasons, power_w=power_w)), 0)
    assert (w.heat_held, w.power_held) == (heat, power)


def test_reasons_that_were_not_read_are_none() -> None:
    w = window_of(samples(lambda n: device(throttle_reasons=None)), 0)
    assert (w.heat_held, w.power_held) == (None, None)


def test_the_links_rate_is_the_catalogue_s() -> None:
    assert links_peak_bytes_per_s("NVIDIA H200") == 900e9  # NVLink 4, both ways
    assert links_peak_bytes_per_s("NVIDIA L4") is None  # has none
    assert links_peak_bytes_per_s("a chip of tomorrow") is None
    w = window_of(samples(training), 0)
    assert w.nvlink_share == pytest.approx(180e9 / 900e9)


def test_neighbours_are_devices_that_someone_uses() -> None:
    free = device(3, None, utilisation=0.0, processes=())
    many = samples(lambda n: [training(n, 0), training(n, 1), idle(n, 2), free])
    assert window_of(many, 0).neighbours == 2  # one works, one holds a process
    assert window_of(many, 3).neighbours == 3


def test_what_was_not_read_is_none() -> None:
    w = window_of(samples(lambda n: device(0, None, utilisation=None, power_w=None), 3), 0)
    assert (w.n, w.busy, w.sm, w.power_share, w.sm_while_busy) == (0, None, None, None, None)
    assert nvlink_of(device(0, None)) is None
    assert mean([None, None]) is None


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=3, max_size=10))
def test_means_lie_between_least_and_most(busy: list[float]) -> None:
    w = window_of(samples(lambda n: device(utilisation=busy[n]), len(busy)), 0)
    assert min(busy) - 1e-9 <= w.busy <= max(busy) + 1e-9
    assert w.swing is None or 0 <= w.swing <= 2
