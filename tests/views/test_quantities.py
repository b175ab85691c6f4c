"""Values of an explanation as text."""

from __future__ import annotations

import math

import pytest
from both import both
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.document.blocks import Axis
from gpuscope.views.quantities import axis_label, cell, tick, ticks, words


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.00123, "s", "1.23 ms"),
        (2**30, "bytes", "1.00 GiB"),
        (4.8e12, "bytes/s", "4.80 TB/s"),
        (2 * 4096**3, "flop", "137 GFLOP"),
        (989e12, "flop/s", "989 TFLOP/s"),
        (206.0417, "flop/byte", "206 FLOP/B"),
        (0.382, "share", "38.2 %"),
        (1.5, "ratio", "1.50×"),
        (8192, "count", "8,192"),
        (1.98e9, "Hz", "1.98 GHz"),
        (700, "W", "700 W"),
        (0.31, "J", "310 mJ"),
        (0.213, "usd", "$0.213"),
        (4096, "", "4096"),
        (1_000_000, "", "1,000,000"),
        (2.5, "", "2.50"),
        (2.5, "tokens/s", "2.50 tokens/s"),
        ("128x256", "s", "128x256"),
    ],
)
def test_units_of_the_contract(value: float | str, unit: str, text: str) -> None:
    assert cell(value, unit) == text


def test_missing_is_said_in_both_languages() -> None:
    assert cell(None, "s") == cell(math.nan, "s") == cell(math.inf, "") == "not available"
    assert cell(None, "flop/byte", "zh") == "不可用"


def test_words_are_chosen_by_language() -> None:
    wave = both("wave", "波次")
    assert (cell(wave), cell(wave, "s", "zh"), words(None, "zh")) == ("wave", "波次", "")
    assert axis_label(Axis(wave, "s", log=True), "zh") == "波次（对数）"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1e-3, "s", "1 ms"),
        (2**20, "bytes", "1 MiB"),
        (1.25e-3, "s", "1.25 ms"),
        (0.5, "share", "50 %"),
        (1.5, "ratio", "1.5×"),
        (100, "", "100"),
        (0, "s", "0 s"),
    ],
)
def test_ticks_have_no_idle_zeros(value: float, unit: str, text: str) -> None:
    assert tick(value, unit) == text


def test_ticks_by_hand() -> None:
    assert ticks(0, 10, 6) == [0, 2, 4, 6, 8, 10]
    assert ticks(1e-6, 1e-2, 5, log=True, unit="s") == pytest.approx([1e-6, 1e-5, 1e-4, 1e-3, 1e-2])
    assert ticks(1024, 4096, 5, log=True, unit="bytes") == [1024, 2048, 4096]
    assert ticks(0, 4 * 2**30, 5, unit="bytes") == [n * 2**30 for n in range(5)]
    assert ticks(3, 3, 5) == [3]


@given(
    st.floats(1e-12, 1e12),
    st.floats(1.01, 1e9),
    st.integers(2, 12),
    st.booleans(),
    st.sampled_from(["", "bytes", "s"]),
)
def test_ticks_rise_inside_the_axis(
    low: float, ratio: float, most: int, log: bool, unit: str
) -> None:
    high = low * ratio
    found = ticks(low, high, most, unit=unit, log=log)
    assert 1 <= len(found) <= most
    assert found == sorted(set(found))
    slack = 1e-6 * (low if log else high - low)
    assert all(low - slack <= x <= high * (1 + 1e-6) for x in found)
