"""Numbers in units, in two languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.document.text import render
from gpuscope.learn.claims.scales import SCALES, Sentence, in_unit, number


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
    assert in_unit(value, unit) == en
    assert render(in_unit(value, unit), "zh") == zh


@given(st.floats(1e-6, 1e14))
def test_a_shown_number_is_close_to_the_value(value: float) -> None:
    shown = number(value)
    assert float(shown.replace(",", "")) == pytest.approx(value, rel=0.006)
    assert "e" not in shown or not 1e-4 <= value < 1e15


def test_every_unit_has_a_size() -> None:
    assert all(scale.size > 0 for scale in SCALES.values())


def test_a_sentence_shows_its_names_in_their_units() -> None:
    sentence = Sentence("{rate} of {n}, {t}", {"rate": "GB/s", "n": ".1f", "t": "billion"})
    found = sentence.filled({"rate": 1e12, "n": 4, "t": 80e9, "other": 1})
    assert found == "1,000 GB/s of 4.0, 80 billion"
    assert render(found, "zh") == "1,000 GB/s of 4.0, 800 亿"


def test_a_sentence_with_an_unknown_name_is_refused() -> None:
    with pytest.raises(KeyError):
        Sentence("{a}", {}).filled({"b": 1.0})
