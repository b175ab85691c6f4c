"""Which links a group's real ranks use."""

from __future__ import annotations

import time
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.cost.collective.group import group_of, pair_bytes_per_s
from gpuscope.cost.collective.ways import all_reduce_s, gather_s, ways
from gpuscope.hardware import parse_target

FOUR_NODES = parse_target("4x8xh100")


def test_neighbours_fill_a_domain() -> None:
    group = group_of(FOUR_NODES, range(8, 16))
    assert (group.ranks, group.local, group.domains) == (8, 8, 1)
    assert group.fabric_bytes_per_s == inf
    assert group.link_bytes_per_s == 450e9
    assert group == group_of(FOUR_NODES, 8)


def test_a_rank_a_node_has_its_own_port_and_no_link() -> None:
    """Data parallelism beside eight-fold tensor parallelism: eight rings over eight rails."""
    for first in range(8):
        rail = group_of(FOUR_NODES, range(first, 32, 8))
        assert (rail.local, rail.domains) == (1, 4)
        assert (rail.link_bytes_per_s, rail.fabric_bytes_per_s) == (inf, 50e9)
        assert rail.ring_bytes_per_s == 50e9
    whole = group_of(FOUR_NODES, 32)
    assert whole.ring_bytes_per_s == 8 * 50e9  # the ports of a node together


def test_a_hybrid_group_has_as_many_ports_as_members_a_node() -> None:
    pairs = group_of(FOUR_NODES, [r for r in range(32) if r % 8 in (2, 3)])
    assert (pairs.local, pairs.domains) == (2, 4)
    assert pairs.ring_bytes_per_s == 2 * 50e9


def test_the_time_of_eight_rails_at_once_is_that_of_the_whole_node() -> None:
    """1 / 8 of the data over each of eight ports, or all over all of them."""
    size = 64 * 2**30
    rail_s = gather_s(group_of(FOUR_NODES, range(0, 32, 8)), size / 8)
    assert rail_s == pytest.approx(3 / 4 * size / 8 / (0.9 * 50e9), rel=2e-2)


def test_unequal_parts_take_the_fullest_domain() -> None:
    group = group_of(FOUR_NODES, [0, 1, 2, 8, 16])
    assert (group.ranks, group.local, group.domains) == (5, 3, 3)


def test_pairs_inside_and_across() -> None:
    assert pair_bytes_per_s(FOUR_NODES, 0, 7) == 450e9
    assert pair_bytes_per_s(FOUR_NODES, 7, 8) == 50e9
    mesh = parse_target("8xmi300x")
    assert pair_bytes_per_s(mesh, 0, 5) == pytest.approx(448e9 / 7)


def test_switches_that_add_are_known_by_their_links() -> None:
    assert group_of(parse_target("8xh200"), 8).adds
    assert not group_of(parse_target("8xh200"), 2).adds
    assert not group_of(parse_target("8xa100-sxm-80gb"), 8).adds
    assert not group_of(parse_target("8xrtx-4090"), 8).adds


def test_an_axis_of_a_torus_has_only_its_own_links() -> None:
    """4 x 4 x 4 with 100 GB/s links: all six of a chip, or the two along an axis."""
    torus = parse_target("64xtpu-v5p")
    whole = group_of(torus, 64)
    assert [a.length for a in whole.axes] == [4, 4, 4]
    assert all(a.wraps for a in whole.axes)
    assert whole.link_bytes_per_s == pytest.approx(600e9)
    line = group_of(torus, range(4))
    assert [a.length for a in line.axes] == [4]
    assert line.link_bytes_per_s == pytest.approx(200e9)
    strided = group_of(torus, range(0, 64, 16))
    assert strided.link_bytes_per_s == pytest.approx(200e9)
    half = group_of(torus, range(2))
    assert half.link_bytes_per_s == pytest.approx(100e9)  # a line of two: one link


def test_a_small_slice_in_the_plane_does_not_close() -> None:
    slice_16 = group_of(parse_target("16xtpu-v5e"), 16)
    assert [(a.length, a.wraps) for a in slice_16.axes] == [(4, False), (4, False)]
    pod = group_of(parse_target("256xtpu-v5e"), 256)
    assert all(a.wraps for a in pod.axes)
    assert slice_16.link_bytes_per_s == pytest.approx(pod.link_bytes_per_s / 2)


def test_a_trainium_instance_is_four_by_four() -> None:
    group = group_of(parse_target("16xtrainium2"), 16)
    assert [(a.length, a.wraps) for a in group.axes] == [(4, True), (4, True)]


def test_sixteen_thousand_ranks_are_quick() -> None:
    cluster = parse_target("16384xh100")
    began = time.perf_counter()
    for first in range(8):
        group = group_of(cluster, tuple(range(first, 16384, 8)))
        assert group.domains == 2048
        assert 0 < all_reduce_s(group, 1e8) < 1
    assert time.perf_counter() - began < 1.0


@given(st.sets(st.integers(0, 31), min_size=2))
def test_any_group_is_counted_whole(members: set[int]) -> None:
    ranks = tuple(sorted(members))
    group = group_of(FOUR_NODES, ranks)
    assert group.ranks == len(ranks)
    assert group.domains == len({rank // 8 for rank in ranks})
    assert group.local * group.domains >= group.ranks
    assert 0 < all_reduce_s(group, 1e6) < inf


def test_a_mesh_of_neighbours_does_not_close() -> None:
    group = group_of(parse_target("25xtesla-dojo-d1"), 25)
    assert [(axis.length, axis.wraps) for axis in group.axes] == [(5, False), (5, False)]
    (way,) = ways("all_reduce", group, 1e9)
    assert way.algorithm == "mesh"
    # A corner has two of the four links: half of what the die can send.
    assert group.link_bytes_per_s == 2e12


@pytest.mark.parametrize("target", ["8xgaudi3", "8xascend-910b", "4xmax-1550", "8xmlu370-x8"])
def test_protocols_of_nccl_are_its_own(target: str) -> None:
    group = group_of(parse_target(target), 4)
    for operation in ("all_reduce", "all_gather", "all_to_all", "broadcast"):
        assert {way.protocol.name for way in ways(operation, group, 1e6)} == {"DMA"}
