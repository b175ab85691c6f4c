"""What kernels for depthwise convolutions take."""

from __future__ import annotations

import pytest

from gpuscope.cost.convolution.depthwise_forms import (
    Form,
    WalkForm,
    WeightForm,
    WindowForm,
    inside,
    native_weight_s,
    seconds,
    slices_of,
    walk_s,
    window_s,
)

FORM = Form(2e-6, 1.0, 0.1, 100.0, 0.5)
CLOCK_S = 5e-10
CYCLE_S = CLOCK_S / 100


def test_taps_outside_the_image_do_not_count() -> None:
    three = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1)}
    assert inside((3, 3), (3, 3), (3, 3), **three) == pytest.approx((7 / 3) ** 2)
    assert inside((100, 100), (98, 98), (3, 3), (1, 1), (0, 0), (1, 1)) == 9
    large = inside((7, 7), (7, 7), (7, 7), (1, 1), (3, 3), (1, 1))
    assert large < 49 * 0.65


def test_a_thread_walks_its_taps_however_few_results_there_are() -> None:
    few, _ = seconds(FORM, 1, 49, 0.0, CYCLE_S, CLOCK_S)
    assert few == pytest.approx(49 * 100 * CLOCK_S, rel=0.01)
    many, compute = seconds(FORM, 1e9, 49, 0.0, CYCLE_S, CLOCK_S)
    assert many == pytest.approx(1e9 * 5.9 * CYCLE_S, rel=0.01) == compute


def test_memory_sets_the_pace_where_taps_are_few() -> None:
    total, compute = seconds(FORM, 1e6, 1, 1e-3, CYCLE_S, CLOCK_S)
    assert total == pytest.approx(2e-3, rel=0.01)
    assert compute < total / 10


def test_a_weight_has_a_block_that_walks_all_images() -> None:
    form = WeightForm(2e-6, 13.0, 200.0, 1000.0)
    one = native_weight_s(form, 8, 1024, 9 * 64, 132, CLOCK_S)
    assert native_weight_s(form, 80, 1024, 9 * 64, 132, CLOCK_S) > 8 * one
    assert native_weight_s(form, 8, 1024, 90 * 64, 132, CLOCK_S) > 5 * one


def test_slices_fill_the_device_but_no_more_than_eight() -> None:
    assert slices_of(1, 96) == 8
    assert slices_of(16, 256) == 16 * 3
    assert slices_of(64, 768) == 64


def test_a_walk_pays_for_each_row_and_each_tap() -> None:
    form = WalkForm(3e-6, 0.5, 0.4, 0.2, 6e-7, 0.3)
    many = 1e9
    wide, tall = (walk_s(form, many, w, 21.0, 132, 4e-12) for w in ((1, 21), (21, 1)))
    assert wide == pytest.approx(many * (0.5 + 0.4 + 4.2) * 4e-12, rel=0.1)
    assert tall == pytest.approx(many * (0.5 + 8.4 + 4.2) * 4e-12, rel=0.1)


def test_a_walk_of_few_results_waits_and_passes_over_what_lies_outside() -> None:
    form = WalkForm(3e-6, 0.5, 0.4, 0.2, 6e-7, 0.3)
    inside, outside = (walk_s(form, 1000.0, (9, 9), taps, 132, 4e-12) for taps in (81.0, 0.0))
    assert inside == pytest.approx(81 * 6e-7, rel=0.01)
    assert outside == pytest.approx(0.3 * inside, rel=0.01)


WINDOW = WindowForm(2e-6, 2.0, 0.3, 0.12, 0.01, 1.0, 0.6)


def test_any_window_pays_for_rows_and_for_taps_inside() -> None:
    """Many results: 2 cycles, 0.3 a row, 0.12 a tap inside and 0.01 a tap outside."""
    many, cycle_s = 1e9, 4e-12
    for window in ((1, 21.0, 21.0), (21, 21.0, 21.0), (31, 121.0, 961.0)):
        rows, within, taps = window
        each = 2.0 + 0.3 * rows + 0.12 * within + 0.01 * (taps - within)
        rest_s, compute_s = window_s(WINDOW, many, window, 0.0, 132, cycle_s)
        assert rest_s == pytest.approx(compute_s)
        assert compute_s == pytest.approx(many * each * cycle_s, rel=0.25)


def test_any_window_waits_for_bytes_that_outlast_it() -> None:
    rest_s, compute_s = window_s(WINDOW, 1e6, (3, 9.0, 9.0), 1.0, 132, 4e-12)
    assert rest_s == pytest.approx(1.0 / 0.6)
    assert compute_s < 1e-3
