"""Figures as people read them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.document import format as units

FORMATS = [
    units.time,
    units.size,
    units.byte_rate,
    units.flops,
    units.flop_rate,
    units.energy,
    units.power,
    units.count,
    units.share,
    units.ratio,
    units.money,
]


CASES = json.loads((Path(__file__).parent / "format_cases.json").read_text("utf-8"))
"""(value, unit, text), read by `web/test/core.test.ts`, too; "nan" and "inf" are strings there."""


@pytest.mark.parametrize(("value", "unit", "text"), CASES)
def test_the_cases_that_the_page_is_held_to(value, unit, text) -> None:
    assert units.quantity(None if value is None else float(value), unit) == text


def test_every_unit_has_cases() -> None:
    assert set(units.FORMATS) <= {unit for _, unit, _ in CASES}


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
