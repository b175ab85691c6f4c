"""Amounts in bins: known answers, nothing lost, nothing invented."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis.binning import spread


def test_an_event_over_two_and_a_half_bins_gives_each_its_part() -> None:
    found = spread(np.array([50]), np.array([300]), np.array([250.0]), (0, 400), 4)
    assert found.tolist() == [50.0, 100.0, 100.0, 0.0]


def test_what_lies_outside_the_window_is_not_counted() -> None:
    start, end = np.array([-100, 350]), np.array([100, 450])
    found = spread(start, end, np.array([200.0, 100.0]), (0, 400), 4)
    assert found.tolist() == [100.0, 0.0, 0.0, 50.0]


def test_an_event_without_length_falls_into_one_bin() -> None:
    found = spread(np.array([150, 400]), np.array([150, 400]), np.array([7.0, 9.0]), (0, 400), 4)
    assert found.tolist() == [0.0, 7.0, 0.0, 0.0]


def test_an_empty_window_holds_nothing() -> None:
    assert spread(np.array([0]), np.array([9]), np.array([1.0]), (5, 5), 3).tolist() == [0, 0, 0]


events = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(1, 1000), st.floats(0, 1e12)), min_size=1
)


@given(events, st.integers(1, 50))
def test_all_amounts_are_kept(rows: list[tuple[int, int, float]], bins: int) -> None:
    start = np.array([s for s, _, _ in rows])
    end = start + np.array([d for _, d, _ in rows])
    amount = np.array([a for _, _, a in rows])
    found = spread(start, end, amount, (0, 2000), bins)
    assert found.sum() == pytest.approx(amount.sum(), rel=1e-9)
    assert (found >= 0).all()
