from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.measurement.statistics import median_interval, settled_from


def test_coverage_by_hand() -> None:
    """Six samples: the extremes miss the median only if all lie on one side: 2 / 2^6."""
    found = median_interval([3, 1, 2, 6, 5, 4])
    assert (found.median, found.low, found.high) == (3.5, 1, 6)
    assert found.confidence == pytest.approx(1 - 2 / 64)


def test_eight_samples_cannot_be_narrower_at_95() -> None:
    """The second from each end covers 1 - 2 * (1 + 8) / 256 = 93 %."""
    assert median_interval(range(8)).low == 0
    assert median_interval(range(8), 0.9).low == 1
    assert median_interval(range(8), 0.9).confidence == pytest.approx(1 - 18 / 256)


def test_few_samples_say_what_they_reach() -> None:
    assert median_interval([1.0, 2.0]).confidence == pytest.approx(0.5)
    assert median_interval([7.0]) == median_interval([7.0])
    assert median_interval([7.0]).confidence is None
    with pytest.raises(ValueError, match="No samples"):
        median_interval([])


@given(st.lists(st.floats(1e-6, 1e3), min_size=2, max_size=40), st.floats(0.5, 0.99))
def test_the_interval_holds_the_samples_median(samples, confidence) -> None:
    found = median_interval(samples, confidence)
    assert min(samples) <= found.low <= found.median <= found.high <= max(samples)
    best = 1 - 2 / 2 ** len(samples)
    assert found.confidence >= min(confidence, best) - 1e-12


def test_intervals_cover_as_often_as_they_say() -> None:
    draw = np.random.default_rng(5)
    true = math.log(2)  # the median of an exponential distribution
    hits = claimed = 0.0
    for _ in range(2000):
        found = median_interval(draw.exponential(size=12).tolist(), 0.95)
        hits += found.low <= true <= found.high
        claimed += found.confidence
    assert hits / 2000 == pytest.approx(claimed / 2000, abs=0.012)


def test_a_slow_beginning_is_left_out() -> None:
    times = [9.0, 3.0, 1.0, 1.01, 0.99, 1.0, 1.0, 1.01, 0.99, 1.0]
    assert settled_from(times) == 2


def test_steady_from_the_start_and_too_few() -> None:
    assert settled_from([1.0] * 6) == 0
    assert settled_from([1.0] * 5) is None
    assert settled_from([]) is None


def test_a_lasting_drift_is_not_settled() -> None:
    assert settled_from([1 + 0.02 * i for i in range(20)]) is None
    assert settled_from([2 - 0.02 * i for i in range(20)]) is None


def test_a_short_steep_trend_is_not_settled() -> None:
    assert settled_from([27.5, 25, 22.5, 20, 17.5, 15, 12.5]) is None


def test_a_change_at_the_very_end_is_not_settled() -> None:
    assert settled_from([1.0] * 10 + [2.0] * 3) is None


@settings(max_examples=50)
@given(st.integers(0, 12), st.integers(0, 2**32 - 1))
def test_noise_of_three_per_cent_settles_where_the_warmup_ends(slow, seed) -> None:
    draw = np.random.default_rng(seed)
    times = [5.0] * slow + (1 + 0.03 * draw.standard_normal(60)).tolist()
    found = settled_from(times)
    assert found is None or found >= slow
    assert found is None or found <= slow + 55  # a rare draw looks like a trend for long


def test_one_outlier_does_not_matter() -> None:
    times = [1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0, 1.0]
    assert settled_from(times) is not None


def test_many_samples_have_an_interval_too() -> None:
    """Thousands of samples: the binomial's numbers outgrow a float, the interval narrows."""
    few, many = (median_interval([float(i) / n for i in range(n)], 0.95) for n in (199, 20_001))
    assert many.low < 0.5 < many.high
    assert many.high - many.low < (few.high - few.low) / 5
    assert many.confidence is not None
    assert many.confidence == pytest.approx(0.95, abs=0.01)
