"""Switches that add: bytes, limits and where they pay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.cost.collective.switched import collnet, nvls, nvls_tree
from gpuscope.cost.collective.ways import NCCL, Group, chosen, group_of, ways
from gpuscope.hardware import parse_target

NODE = group_of(parse_target("8xh200"), 8)
FAR = group_of(parse_target("16x8xh100"), 128)


def test_bytes_and_rate_by_hand() -> None:
    way = nvls(NODE, 8e9, NCCL)
    assert way.sent_bytes == 9e9
    assert way.time_s == pytest.approx(25e-6 + 9e9 / (0.65 * 450e9))
    assert way.steps == 1


def test_two_ranks_gain_nothing_and_many_gain_half() -> None:
    for n, gain in ((2, 2 * 1 / 2 / 1.5), (1024, 2.0)):
        group = Group(n, n, 450e9, adds=True)
        bytes_of_ring = 2 * (n - 1) / n
        assert bytes_of_ring / nvls(group, 1.0, NCCL).sent_bytes == pytest.approx(gain, rel=2e-3)


def test_the_tree_over_domains_is_held_by_the_ports() -> None:
    size = 64e9
    assert nvls_tree(FAR, size, NCCL).moving_s == pytest.approx(2 * size / (0.9 * 8 * 50e9))
    assert nvls_tree(FAR, 8, NCCL).fabric_steps == 2 * 4
    assert nvls_tree(FAR, 0.0, NCCL).moving_s == 0


def test_sharp_only_where_it_was_switched_on() -> None:
    size = 64e9
    names = {w.algorithm for w in ways("all_reduce", FAR, size)}
    assert "collnet" not in names
    on = replace(NCCL, collnet=True)
    assert "collnet" in {w.algorithm for w in ways("all_reduce", FAR, size, on)}
    assert chosen("all_reduce", FAR, size, on).algorithm == "collnet"
    assert collnet(FAR, size, on).moving_s < nvls_tree(FAR, size, on).moving_s
    ethernet = group_of(parse_target("2x8xmi300x"), 16)
    assert "collnet" not in {w.algorithm for w in ways("all_reduce", ethernet, size, on)}
