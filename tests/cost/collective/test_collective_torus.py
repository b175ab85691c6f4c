"""Tori against the scaling book's sums."""

from __future__ import annotations

from math import inf

import pytest

from gpuscope.cost.collective.torus import TORUS_SHARE
from gpuscope.cost.collective.ways import OPERATIONS, chosen, group_of, ways
from gpuscope.hardware import parse_target

SIZE = 2**34
CUBE = group_of(parse_target("64xtpu-v5p"), 64)
AXIS = group_of(parse_target("64xtpu-v5p"), range(4))


def time_s(operation: str, group=CUBE, size: float = SIZE) -> float:
    return chosen(operation, group, size).time_s


def test_an_all_gather_uses_all_links_both_ways() -> None:
    assert time_s("all_gather") == pytest.approx(63 / 64 * SIZE / (TORUS_SHARE * 600e9), rel=1e-3)
    assert time_s("all_gather", AXIS) == pytest.approx(
        3 / 4 * SIZE / (TORUS_SHARE * 200e9), rel=1e-3
    )
    assert time_s("all_reduce") == pytest.approx(2 * time_s("all_gather"), rel=1e-2)


def test_an_all_to_all_on_a_ring_is_a_quarter_of_gathering_the_same() -> None:
    """n ranks with S / n each: gathering S, or exchanging it (scaling book, chapter 3)."""
    ring = group_of(parse_target("256xtpu-v5e"), range(16))
    assert [a.wraps for a in ring.axes] == [True]
    exchange_s = time_s("all_to_all", ring, SIZE / 16)
    assert exchange_s == pytest.approx(time_s("all_gather", ring, SIZE) / 4 * 16 / 15, rel=1e-2)


def test_hops_are_half_an_axis_that_closes() -> None:
    (way,) = ways("all_gather", CUBE, 8)
    assert way.steps == 2 + 2 + 2
    (line,) = ways("all_gather", group_of(parse_target("16xtpu-v5e"), range(4)), 8)
    assert line.steps == 3


@pytest.mark.parametrize("operation", OPERATIONS)
def test_several_tori_share_out_the_fabric(operation: str) -> None:
    cluster = parse_target("32xtrainium2")
    group = group_of(cluster, 32)
    for size in (1e3, 1e6, 1e9):
        (way,) = ways(operation, group, size)
        assert 0 < way.time_s < inf
        inside = way.moving_s
        (twice,) = ways(operation, group, 2 * size)
        assert twice.moving_s == pytest.approx(2 * inside)
