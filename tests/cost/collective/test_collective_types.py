"""Groups, axes and ways as plain data."""

from __future__ import annotations

from math import inf

import pytest

from gpuscope.cost.collective.types import PROTOCOLS, Axis, Group, Tuning, seconds_of, way


def test_an_axis_that_closes_has_twice_the_links_and_half_the_hops() -> None:
    ring, line = Axis(8, True), Axis(8, False)
    assert (ring.ways, ring.hops) == (2, 4)
    assert (line.ways, line.hops) == (1, 7)
    assert Axis(4, True, share=0.5).ways == 1  # two groups interleave on it


def test_domains_are_counted_or_as_few_as_hold_the_ranks() -> None:
    assert Group(20, 8, 1.0).domains == 3
    assert Group(20, 8, 1.0, spread=5).domains == 5


def test_shares_are_interpolated_over_the_logarithm_and_not_beyond() -> None:
    tuning = Tuning(shares={"all_reduce": ((2, 0.6), (8, 0.8))})
    assert tuning.share("all_reduce", 4) == pytest.approx(0.7)
    assert tuning.share("all_reduce", 64) == pytest.approx(0.8)
    assert tuning.share("broadcast", 4) == 0.8
    assert tuning.share("broadcast", 4, 0.3) == 0.3
    assert tuning.most_ranks() == 8
    assert Tuning().most_ranks() == 0


def test_a_way_is_its_steps_and_its_bytes() -> None:
    made = way("ring", PROTOCOLS[0], (6, 2), (1e-6, 2e-6, 3e-6), 1e9, 1e10)
    assert made.latency_s == pytest.approx(1e-6 + 12e-6 + 6e-6)
    assert made.time_s == pytest.approx(0.1 + 19e-6)
    assert (made.steps, made.fabric_steps) == (8, 2)


def test_unknown_rates_take_for_ever_and_nothing_takes_no_time() -> None:
    assert seconds_of(1.0, 0.0) == inf
    assert seconds_of(0.0, 0.0) == 0.0
    assert seconds_of(1.0, inf) == 0.0
