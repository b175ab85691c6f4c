"""Numbers in units, in two languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.explain.types import Words
from gpuscope.learn.claims.scales import SCALES, fill, number, show


@pytest.mark.parametrize(
    ("value", "unit", "en", "zh"),
    [
        (2.039e12, "GB/s", "2,039 GB/s", "2,039 GB/s"),
        (3.35e12, "TB/s", "3.35 TB/s", "3.35 TB/s"),
        (40 * 2**20, "MiB", "40 MiB", "40 MiB"),
        (50e9, "Gb/s", "400 Gb/s", "400 Gb/s"),
        (208e9, "billion", "208 billion", "2,080 亿"),
        (1.0626e6, "million", "1.06 million", "106.3 万"),
        (2023, "year", "2023", "2023 年"),
        (0.459, "%", "45.9 %", "45.9 %"),
        (-0.014, "%", "−1.4 %", "−1.4 %"),
        (7e-9, "nm", "7 nm", "7 nm"),
        (1.75, "x", "1.75×", "1.75 倍"),
    ],
)
def test_known_values(value: float, unit: str, en: str, zh: str) -> None:
    assert show(value, unit, "en") == en
    assert show(value, unit, "zh") == zh


@given(st.floats(1e-6, 1e14))
def test_a_shown_number_is_close_to_the_value(value: float) -> None:
    shown = number(value)
    assert float(shown.replace(",", "")) == pytest.approx(value, rel=0.006)
    assert "e" not in shown or not 1e-4 <= value < 1e15


def test_every_unit_has_both_languages_and_a_size() -> None:
    for scale in SCALES.values():
        assert scale.size > 0
        assert bool(scale.en) == bool(scale.zh) or scale is SCALES["year"]


def test_a_template_is_filled_in_both_languages() -> None:
    template = Words("{rate:GB/s} of {n:.1f}", "{n:,.0f} 个：{rate:GB/s}")
    words = fill(template, {"rate": 1e12, "n": 4})
    assert words == Words("1,000 GB/s of 4.0", "4 个：1,000 GB/s")
    assert fill(Words("{t:billion}", "{t:billion}"), {"t": 80e9}) == Words("80 billion", "800 亿")


def test_a_template_with_an_unknown_name_is_refused() -> None:
    with pytest.raises(KeyError):
        fill(Words("{a}", "{b}"), {"a": 1.0})
