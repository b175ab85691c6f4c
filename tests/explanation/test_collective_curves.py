"""Curves of a collective against sums by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpuscope.explanation.collective_case import CollectiveCase, make_case
from gpuscope.explanation.collective_curves import (
    bandwidth_over_size,
    even_bytes,
    explorer,
    rank_counts,
    reigns,
    time_over_ranks,
    time_over_size,
    ways_by_size,
)


@pytest.fixture(scope="module", params=["8xh100", "8x8xh100", "2xrtx-4090"])
def case(request: pytest.FixtureRequest) -> CollectiveCase:
    return make_case("all_reduce", "64MB", request.param, "bf16")


def test_reigns_cover_all_sizes_and_meet_where_two_ways_are_equal(case: CollectiveCase) -> None:
    found = reigns(case)
    assert found[0].low_bytes == 2**10
    assert found[-1].high_bytes == 2**33
    for left, right in pairwise(found):
        assert left.high_bytes == right.low_bytes
        times = {(w.algorithm, w.protocol.name): w.time_s for w in case.ways(left.high_bytes)}
        assert times[left.algorithm, left.protocol] == pytest.approx(
            times[right.algorithm, right.protocol], rel=1e-6
        )


def test_at_the_even_size_both_parts_are_equal(case: CollectiveCase) -> None:
    way = next(
        w
        for w in case.ways(even_bytes(case))
        if (w.algorithm, w.protocol) == (case.taken.algorithm, case.taken.protocol)
    )
    assert way.latency_s == pytest.approx(way.moving_s)


def test_the_lowest_curve_is_the_time(case: CollectiveCase) -> None:
    block = time_over_size(case)
    for at, nbytes in enumerate(block.series[0].x):
        lowest = min(s.y[at] for s in block.series if s.y[at] is not None)
        assert lowest == pytest.approx(case.time_s(nbytes))
        assert all((s.y[at] or 0) <= (s.y[at + 1] or 0) for s in block.series if at + 1 < len(s.x))


def test_bandwidth_rises_and_stays_below_the_roof(case: CollectiveCase) -> None:
    block = bandwidth_over_size(case)
    rates = [y for y in block.series[0].y if y is not None]
    assert rates == sorted(rates)
    roof = next(mark.y for mark in block.marks if mark.y is not None and mark.x is None)
    assert roof == case.roof_bytes_per_s
    by_switch = case.ways(2.0**33)[0].algorithm == "nvls"  # sends less than a ring would
    assert rates[-1] < roof or by_switch


def test_the_marked_row_holds_the_message(case: CollectiveCase) -> None:
    table = ways_by_size(case)
    (row,) = table.marked
    low, high = table.rows[row][:2]
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    assert low <= case.size_bytes <= high
    assert table.rows[row][3] == case.taken.protocol.name


def test_more_ranks_take_no_less_time() -> None:
    case = make_case("all_reduce", "64MB", "8xh200", "bf16")
    assert rank_counts(case) == (2, 4, 8, 16, 32, 64)
    block = time_over_ranks(case)
    assert block is not None
    latency = [y for y in block.series[1].y if y is not None]
    assert latency == sorted(latency)
    assert block.series[0].y[2] == case.taken.time_s


def test_the_explorer_stands_at_the_message(case: CollectiveCase) -> None:
    block = explorer(case)
    index = 0
    combinations = 1
    for slider in block.sliders:
        index = index * len(slider.values) + slider.start
        combinations *= len(slider.values)
    time, rate, _ = block.outputs
    assert all(len(o.values) == combinations for o in block.outputs)
    assert time.values[index] == case.taken.time_s
    assert rate.values[index] == case.bus_bytes_per_s(case.size_bytes, case.taken.time_s)
    assert combinations <= 20_000
