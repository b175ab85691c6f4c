"""A copy as the user asks for it, and what cannot be."""

from __future__ import annotations

import pytest

from gpuscope.errors import InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.explanation.transfer_case import make_case


@pytest.mark.parametrize(
    ("amount", "on", "way", "error", "says"),
    [
        ("0", "h200", "h2d", InvalidValueError, "at least one byte"),
        (-1, "h200", "h2d", InvalidValueError, "at least one byte"),
        ("lots", "h200", "h2d", InvalidValueError, "not a quantity"),
        ("1GB/s", "h200", "h2d", InvalidValueError, "no unit of bytes"),
        ("1TB", "h200", "h2d", InvalidValueError, "cannot be copied at once"),
        ("1GB", "h200", "up", UnknownNameError, "direction"),
        ("1GB", "h2000", "h2d", UnknownNameError, "device"),
        ("1GB", "m3-max", "h2d", UnsupportedError, "shares the host's memory"),
    ],
)
def test_wrong_input_is_refused_in_words(
    amount: str | float, on: str, way: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        make_case(amount, on, way)


def test_rates_are_bytes_over_time() -> None:
    case = make_case("1GB", "h200", "h2d")
    assert case.size_bytes == 10**9
    for pinned in (True, False):
        assert case.rate(pinned) * case.time_s(pinned) == pytest.approx(1e9)
    assert case.rate(False) < case.rate(True) < case.link_bytes_per_s


def test_at_the_even_size_half_the_rate_is_reached() -> None:
    """Of the model beyond small copies, which go another way."""
    for on in ("h200", "rtx-4090", "mi300x"):
        case = make_case("1GB", on, "d2h")
        large = case.rate(True, 2.0**34)
        assert case.rate(True, case.even_bytes()) == pytest.approx(large / 2, rel=0.01)


def test_a_link_that_is_not_known_is_said() -> None:
    unknown = make_case("1GB", "tpu-v5p", "h2d")
    assert not unknown.link_is_known
    assert unknown.link_name == "PCIe 3.0 x16"
    assert make_case("1GB", "h200", "h2d").link_name == "PCIe 5.0 x16"
