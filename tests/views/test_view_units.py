"""Figures as people read them."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.views import units

FORMATS = [
    units.time, units.size, units.byte_rate, units.flops, units.flop_rate, units.energy,
    units.power, units.count, units.percent, units.ratio, units.money,
]  # fmt: skip


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (units.time, 0.0123, "12.3 ms"),
        (units.time, 0.9996, "1.00 s"),
        (units.time, 3600, "3,600 s"),
        (units.time, 2.5e-6, "2.50 µs"),
        (units.time, 4e-11, "0.0400 ns"),
        (units.time, 0, "0 s"),
        (units.size, 0, "0 B"),
        (units.size, 1000, "1,000 B"),
        (units.size, 1024, "1.00 KiB"),
        (units.size, 141 * 1024**3, "141 GiB"),
        (units.size, 1023.9 * 1024**3, "1.00 TiB"),
        (units.byte_rate, 4.8e12, "4.80 TB/s"),
        (units.flop_rate, 989.4e12, "989 TFLOP/s"),
        (units.flops, 5.98e12, "5.98 TFLOP"),
        (units.energy, 28.11, "28.1 J"),
        (units.energy, 0.000867, "867 µJ"),
        (units.power, 578, "578 W"),
        (units.count, 8192, "8,192"),
        (units.count, 157_000, "157 k"),
        (units.count, 1.24e9, "1.24 G"),
        (units.count, 3, "3"),
        (units.percent, 0.382, "38.2 %"),
        (units.percent, 1.0, "100 %"),
        (units.percent, 0.0004, "< 0.1 %"),
        (units.percent, 0.0, "0.0 %"),
        (units.ratio, 1.449, "1.45×"),
        (units.money, 0.2131, "$0.213"),
        (units.money, 12345.6, "$12,346"),
        (units.money, 0.0000270, "$0.0000270"),
    ],
)
def test_known_figures(show, value, text) -> None:
    assert show(value) == text


@pytest.mark.parametrize("show", FORMATS)
@pytest.mark.parametrize("missing", [None, math.nan, math.inf, -math.inf])
def test_a_missing_reading_is_never_a_number(show, missing) -> None:
    assert show(missing) == "not available"
    assert show(missing, "zh") == "不可用"


@given(st.floats(1e-9, 1e15), st.sampled_from(FORMATS[:7]))
def test_three_significant_digits_of_the_right_size(value, show) -> None:
    text = show(value)
    match = re.fullmatch(r"([\d,.]+) (\S+)", text)
    assert match
    number = float(match[1].replace(",", ""))
    # Between 1 and 1000, but below the smallest and above the largest unit.
    at_the_ends = match[2] in ("s", "ns", "B", "PiB", "nJ", "W", "FLOP", "B/s", "FLOP/s")
    assert at_the_ends or 1 <= number < 1024
    assert number >= 1000 or len(match[1].replace(".", "").strip("0")) <= 3


@given(st.floats(1e-9, 1e6), st.floats(1.02, 1e3))
def test_order_is_kept(value, factor) -> None:
    """More than one per cent apart, two times never read the same."""
    assert units.time(value) != units.time(value * factor)
