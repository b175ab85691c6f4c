"""The ways to run a collective: algorithm, protocol, steps and bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.cost.collective.ways import NCCL, OPERATIONS, Group, group_of, ways
from gpuscope.hardware import parse_target

NODE = group_of(parse_target("8xh200"), 8)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("target", ["2xh200", "8xh200", "4x8xh100", "8xrtx-4090"])
def test_every_way_is_its_latency_and_its_bytes(operation: str, target: str) -> None:
    """Two messages: the line through them meets zero bytes at the latency."""
    cluster = parse_target(target)
    group = group_of(cluster, cluster.n_devices)
    for small, large in zip(ways(operation, group, 1e6), ways(operation, group, 3e6), strict=True):
        assert small.latency_s == large.latency_s
        assert small.time_s - small.latency_s == pytest.approx(small.moving_s)
        assert large.moving_s == pytest.approx(3 * small.moving_s)
        assert small.sent_bytes / small.bytes_per_s == pytest.approx(small.moving_s)
        assert large.sent_bytes == pytest.approx(3 * small.sent_bytes)


def test_steps_and_bytes_of_each_algorithm() -> None:
    n = 8
    by_hand = {
        "all_reduce": ("ring", 14, 2 * 7 / 8),
        "all_gather": ("ring", 7, 7 / 8),
        "reduce_scatter": ("ring", 7, 7 / 8),
        "all_to_all": ("pairs", 1, 7 / 8),
        "broadcast": ("chain", 7, 1.0),
    }
    for operation, (algorithm, steps, share) in by_hand.items():
        for way in ways(operation, NODE, n * 1e6, replace(NCCL, nvls=False)):
            assert (way.algorithm, way.steps, way.fabric_steps) == (algorithm, steps, 0)
            assert way.sent_bytes == pytest.approx(share * n * 1e6)
    many = ways("all_reduce", Group(1024, 8, 450e9, 50e9), 1e6)
    assert {w.algorithm for w in many} == {"ring", "tree"}
    assert {w.fabric_steps for w in many} == {2 * 127, 14}
