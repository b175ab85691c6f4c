"""cuDNN's direct kernel for weight gradients."""

from __future__ import annotations

import pytest
from test_convolution import conv, total_s

from gpuscope.cost.convolution.direct import DirectForm, direct_weight_s, lines, meeting

FORM = DirectForm(1e-6, 300.0, 16.0, 1.0, 0.5, 260.0)
CLOCK_S = 5e-10


def test_channels_that_banks_divide_meet_in_one() -> None:
    assert meeting(128, 4, channels_last=True) == 32
    assert meeting(40, 4, channels_last=True) == 8
    assert meeting(40, 2, channels_last=True) == 4
    assert meeting(33, 4, channels_last=True) == 1
    assert meeting(128, 4, channels_last=False) == 1
    assert meeting(1, 2, channels_last=True) == 1


def test_neighbours_lie_in_lines_of_their_own_where_channels_are_last() -> None:
    assert lines(40, 4, channels_last=True) == 32
    assert lines(8, 4, channels_last=True) == 8
    assert lines(40, 4, channels_last=False) == 1
    near = direct_weight_s(FORM, 32_000, 8 * 132 * 8, 2.0, 2.0, 132, CLOCK_S)
    far = direct_weight_s(FORM, 32_000, 8 * 132 * 8, 2.0, 64.0, 132, CLOCK_S)
    assert far == pytest.approx(2 * near, rel=0.1)


def test_its_time_goes_with_positions_and_with_weights_beyond_a_round() -> None:
    one = direct_weight_s(FORM, 32_000, 8 * 132, 2.0, 2.0, 132, CLOCK_S)
    assert direct_weight_s(FORM, 64_000, 8 * 132, 2.0, 2.0, 132, CLOCK_S) == pytest.approx(
        2 * one, 0.01
    )
    assert direct_weight_s(FORM, 32_000, 8, 2.0, 2.0, 132, CLOCK_S) == one
    many = direct_weight_s(FORM, 32_000, 8 * 132 * 64, 2.0, 2.0, 132, CLOCK_S)
    assert many == pytest.approx(64 * 1000 * 8 * 16 * CLOCK_S, rel=0.05)


def test_reads_that_meet_are_one_after_the_other() -> None:
    apart = direct_weight_s(FORM, 32_000, 8 * 132 * 8, 2.0, 2.0, 132, CLOCK_S)
    met = direct_weight_s(FORM, 32_000, 8 * 132 * 8, 64.0, 64.0, 132, CLOCK_S)
    assert met == pytest.approx(4 * apart, rel=0.1)


@pytest.mark.parametrize(
    ("sizes", "recorded_s"),
    [
        # Channels last, a filter a channel; channels first, few channels and groups (µs of H200).
        ({"n": 16, "c": 246, "k": 246, "size": 56, "groups": 246, "last": True}, 583.5e-6),
        ({"n": 16, "c": 450, "k": 450, "size": 28, "groups": 450, "last": True}, 200.9e-6),
        ({"n": 5, "c": 32, "k": 48, "size": 11, "groups": 2, "stride": 2}, 5.9e-6),
    ],
)
def test_it_is_near_recorded_launches(sizes: dict[str, int], recorded_s: float) -> None:
    found = conv(r=3, pad=1, dtype="float32", which="wgrad", hot=True, **sizes)  # type: ignore[arg-type]
    assert len(found) == 1
    assert total_s(found) == pytest.approx(recorded_s, rel=0.25)
