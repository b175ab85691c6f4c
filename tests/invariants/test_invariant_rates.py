"""Rates above the device's peaks and shares above one are found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from spoilt import found, names, sound, with_analysis, with_page

from gpuscope.analysis.types import Share


def test_a_sound_run_passes() -> None:
    assert found("rates", sound()) == []


def test_traffic_over_the_time_that_is_not_hidden_is_too_fast() -> None:
    """4.8 TB/s is all that an H200 has: 15 TB/s were bytes over the exposed part of the time."""
    hidden = Share("collective", 1e-3, moved_bytes=15.1e9)
    assert len(found("rates", with_analysis(kinds=(hidden,)))) == 1
    assert found("rates", with_analysis(kinds=(replace(hidden, running_s=10e-3),))) == []


def test_arithmetic_above_the_peak() -> None:
    fast = Share("matmul", 1e-3, flops=3e12)
    assert len(found("rates", with_analysis(operators=(fast,)))) == 1


def test_a_unit_above_its_limit() -> None:
    use = sound().document["use"]
    series = [
        {**s, "values": [2 * s["limit"]]} if s["key"] == "tensor" else s for s in use["series"]
    ]
    wrong = names("rates", with_page("use", "series", value=series))
    assert list(wrong) == ["highest value of use.tensor"]


@pytest.mark.parametrize(
    ("screen", "wrong"),
    [
        ("copy 15.1 TB/s", "highest rate on the screen (en)"),
        ("busy 12,750 %", "highest share on the screen (en)"),
        ("2.20 PFLOP/s", "highest rate on the screen (en)"),
        ("4.80 TB/s, 100.0 %, 989 TFLOP/s", None),
    ],
)
def test_what_a_screen_says(screen: str, wrong: str | None) -> None:
    output = replace(sound(), screens={"en": screen})
    assert [str(v.what) for v in found("rates", output)] == ([wrong] if wrong else [])


def test_model_flops_above_the_peak() -> None:
    assert len(found("rates", with_page("figures", "mfu", value=127.5))) >= 1
