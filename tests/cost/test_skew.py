"""The last of n ranks: order statistics against tables and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.cost.skew import (
    DEVICE_BOUND,
    HOST_BOUND,
    Variability,
    expected_largest,
    share_waited,
    waiting,
)
from gpuscope.errors import InvalidValueError


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (1, 0.0),
        (2, 0.56419),
        (3, 0.84628),
        (5, 1.16296),
        (10, 1.53875),
        (50, 2.24907),
        (100, 2.50759),
    ],
)
def test_harter_s_table(n: int, expected: float) -> None:
    assert expected_largest(n) == pytest.approx(expected, abs=2e-5)


def test_drawn_ranks_agree() -> None:
    drawn = np.random.default_rng(0).normal(size=(4000, 64)).max(axis=1)
    assert expected_largest(64) == pytest.approx(drawn.mean(), rel=0.02)


@given(st.integers(1, 100_000))
def test_more_ranks_wait_longer_but_hardly(n: int) -> None:
    assert expected_largest(n) < expected_largest(n + 1) + 1e-9 < expected_largest(n) + 0.6
    assert expected_largest(n) <= (2 * np.log(max(n, 1))) ** 0.5 + 1e-9  # the known upper bound


def test_waiting_by_hand() -> None:
    found = waiting(2, 0.1, Variability(0.03, 0.01, 0.1, device=0.04, device_low=0, device_high=0))
    assert found.mean_s == pytest.approx(0.1 * 0.56419 * 0.05, rel=1e-4)
    assert found.low_s < found.mean_s < found.high_s
    assert waiting(1, 0.1).mean_s == pytest.approx(0, abs=1e-12)


def test_steps_average_out_and_devices_do_not() -> None:
    steps = Variability(0.1, 0.1, 0.1, device=0.0, device_low=0, device_high=0)
    devices = Variability(0.0, 0, 0, device=0.1, device_low=0.1, device_high=0.1)
    assert waiting(8, 1, steps, 100).mean_s == pytest.approx(waiting(8, 1, steps).mean_s / 10)
    assert waiting(8, 1, devices, 100).mean_s == waiting(8, 1, devices).mean_s


def test_hosts_that_set_the_pace_cost_most() -> None:
    assert share_waited(1024, HOST_BOUND) > 5 * share_waited(1024, DEVICE_BOUND)
    assert share_waited(16384) < 0.1


def test_wrong_input() -> None:
    with pytest.raises(InvalidValueError):
        expected_largest(0)
    with pytest.raises(InvalidValueError):
        waiting(8, -1.0)
    with pytest.raises(InvalidValueError):
        waiting(8, 1.0, steps=0)
