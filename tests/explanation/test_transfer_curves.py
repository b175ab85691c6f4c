"""Curves and tables of a copy against its times."""

from __future__ import annotations

import pytest

from gpuscope.explanation.transfer_case import TransferCase, make_case
from gpuscope.explanation.transfer_curves import break_even, explorer, in_pieces, rate_over_size


@pytest.fixture(scope="module")
def case() -> TransferCase:
    return make_case("1GB", "h200", "h2d")


def test_curves_stay_below_the_link_and_pageable_below_pinned(case: TransferCase) -> None:
    block = rate_over_size(case)
    pinned, pageable = block.series
    for fast, slow in zip(pinned.y, pageable.y, strict=True):
        assert fast is not None
        assert slow is not None
        assert slow <= fast < case.link_bytes_per_s
    assert block.marks[0].y == case.rate(True)


def test_pieces_carry_the_same_bytes_and_small_ones_take_longer(case: TransferCase) -> None:
    table = in_pieces(case)
    assert table is not None
    times = []
    for each, copies, total, rate in table.rows:
        assert each * copies == pytest.approx(case.size_bytes)  # type: ignore[operator]
        assert total * rate == pytest.approx(case.size_bytes)  # type: ignore[operator]
        times.append(total)
    assert times == sorted(times, reverse=True)  # type: ignore[type-var]
    assert in_pieces(make_case(64, "h200", "h2d")) is None


def test_break_even_marks_the_first_that_computes_longer(case: TransferCase) -> None:
    table = break_even(case, "bf16")
    assert table is not None
    ratios = [row[-1] for row in table.rows]
    (first,) = table.marked
    assert all(r > 1 for r in ratios[:first])  # type: ignore[operator]
    assert ratios[first] <= 1  # type: ignore[operator]
    side, copied, intensity, *_ = table.rows[4]
    assert copied == 3 * 2 * side**2  # type: ignore[operator]
    assert intensity == pytest.approx(side / 3)  # type: ignore[operator]
    assert break_even(make_case("1GB", "a100", "h2d"), "fp8") is None


def test_the_explorer_stands_at_this_copy(case: TransferCase) -> None:
    block = explorer(case)
    index, combinations = 0, 1
    for slider in block.sliders:
        index = index * len(slider.values) + slider.start
        combinations *= len(slider.values)
    time, rate = block.outputs
    assert len(time.values) == len(rate.values) == combinations <= 20_000
    assert time.values[index] == case.time_s(True)
