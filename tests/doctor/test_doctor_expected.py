from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.doctor import expected
from gpuscope.hardware import device, devices

H200 = device("h200")


@pytest.mark.parametrize(
    ("dtype", "side", "layout", "measured"),
    [
        # Recorded on an H200: short bursts (validation/recordings/h200/bench) ...
        ("bf16", 8192, "nn", 795e12),
        ("fp16", 8192, "nn", 763e12),
        ("tf32", 8192, "nn", 413e12),
        ("fp8", 8192, "nt", 1475e12),
        ("fp32", 4096, "nn", 51e12),
        # ... and held for a second at the power limit.
        ("bf16", 8192, "nn", 668e12),
        ("fp16", 8192, "nn", 638e12),
        ("tf32", 8192, "nn", 348e12),
        ("fp8", 8192, "nt", 1210e12),
    ],
)
def test_a_healthy_h200_is_not_slow_and_half_of_one_is(dtype, side, layout, measured) -> None:
    found = expected.product(H200, dtype, side, layout)
    assert found is not None
    assert found.origin == "calibrated"
    assert not found.is_slow(measured)
    assert not found.is_slow(0.95 * measured)
    assert found.is_slow(0.5 * measured)


def test_copies_of_a_healthy_h200() -> None:
    inside = expected.copy_inside(H200, 1 << 30)
    to_device = expected.host_copy(H200, "h2d", 1 << 28, 5, 16)
    pair = expected.pair_copy(H200)
    assert inside is not None
    assert to_device is not None
    assert pair is not None
    assert inside.rate == pytest.approx(4.24e12, rel=0.05)  # measured
    assert inside.is_slow(0.7 * 4.24e12)
    assert to_device.rate == pytest.approx(55.5e9, rel=0.03)  # measured
    assert pair.rate == pytest.approx(396e9, rel=0.01)  # measured


def test_the_link_as_it_runs() -> None:
    assert expected.link_share(H200, 5, 16) == 1.0
    assert expected.link_share(H200, 4, 16) == pytest.approx(0.5)
    assert expected.link_share(H200, 5, 8) == pytest.approx(0.5)
    assert expected.link_share(H200, 3, 8) == pytest.approx(0.125, rel=0.02)
    assert expected.link_share(H200, 1, 16) == pytest.approx(1 / 16, rel=0.02)
    assert expected.link_share(H200, None, 16) == 1.0
    assert expected.link_share(device("gh200"), 5, 8) == 1.0  # its link to the host is no PCIe
    slow = expected.host_copy(H200, "h2d", 1 << 28, 4, 8)
    fast = expected.host_copy(H200, "h2d", 1 << 28, 5, 16)
    assert slow is not None
    assert fast is not None
    assert slow.rate == pytest.approx(fast.rate / 4)


def test_a_lower_power_limit_lowers_what_is_expected() -> None:
    full = expected.sustained(H200, "bf16", 8192)
    low = expected.sustained(expected.limited(H200, 400.0), "bf16", 8192)
    same = expected.sustained(expected.limited(H200, 699.0), "bf16", 8192)
    assert full is not None
    assert low is not None
    assert same == full
    assert low.rate < 0.8 * full.rate
    assert not full.is_slow(668e12)  # measured at 700 W


@pytest.mark.parametrize(("ranks", "measured"), [(2, 299e9), (4, 348e9)])
def test_collectives_of_h200s(ranks, measured) -> None:
    found = expected.collective(H200, "all_reduce", ranks, 1 << 28)
    assert found is not None
    assert found.rate == pytest.approx(measured, rel=0.05)
    assert not found.is_slow(0.8 * measured)
    assert found.is_slow(0.5 * measured)


def test_no_figure_where_none_can_be_had() -> None:
    assert expected.known("Some GPU that nobody knows") is None
    assert expected.pair_copy(device("rtx-4090")) is None
    assert expected.pair_copy(device("mi300x")) is None  # each pair has its own links
    assert expected.collective(device("rtx-4090"), "all_reduce", 2, 1 << 20) is None
    assert expected.product(device("v100"), "bf16", 4096) is None


def test_every_device_of_pytorch_has_sane_figures() -> None:
    for each in devices():
        if each.pytorch_device != "cuda":
            continue
        found = [
            expected.product(each, "fp16", 8192),
            expected.copy_inside(each, 1 << 28),
            expected.host_copy(each, "h2d", 1 << 28, None, None),
        ]
        for one in found:
            if one is not None:
                assert 0 < one.least < one.rate * 1.05, each.id
                assert one.least < 0.9 * one.rate


def test_the_slow_one_of_eight() -> None:
    rates = {n: 100.0 + n % 3 for n in range(8)} | {5: 70.0}
    found = expected.slow_ones(rates, 0.1)
    assert list(found) == [5]
    assert found[5] == pytest.approx(70 / 101, rel=0.02)


def test_the_slower_of_two() -> None:
    assert expected.slow_ones({0: 100.0, 1: 90.0}, 0.1) == {}
    assert list(expected.slow_ones({0: 100.0, 1: 80.0}, 0.1)) == [1]


def test_two_kinds_of_devices_are_no_outliers() -> None:
    rates = dict(enumerate([100.0, 101.0, 99.0, 100.0, 60.0, 61.0, 59.0, 60.0]))
    assert expected.slow_ones(rates, 0.1) == {}


def test_nothing_to_compare() -> None:
    assert expected.slow_ones({}, 0.1) == {}
    assert expected.slow_ones({0: 5.0}, 0.1) == {}
    assert expected.slow_ones({0: 0.0, 1: 0.0}, 0.1) == {}


@given(
    st.lists(st.floats(0.96, 1.04), min_size=2, max_size=16),
    st.floats(1e-3, 1e15),
    st.integers(0, 15),
)
def test_small_differences_never_stand_out_and_scale_does_not_matter(spread, scale, at) -> None:
    rates = {n: scale * each for n, each in enumerate(spread)}
    assert expected.slow_ones(rates, 0.1) == {}
    ill = at % len(rates)
    assert set(expected.slow_ones(rates | {ill: 0.3 * scale}, 0.1)) == {ill}
