"""Kernels of ranks compared, like with like."""

from __future__ import annotations

import pytest
from rank_builder import RankBuilder

from gpuscope.analysis.columns import OpColumns
from gpuscope.analysis.host_activity import Hosts
from gpuscope.analysis.lateness import rank_work
from gpuscope.analysis.straggler import KernelRatio, kernel_ratios
from gpuscope.program.types import TensorSpec


def ratios(b: RankBuilder) -> dict[int, KernelRatio]:
    timeline = b.timeline()
    ops = OpColumns.of(timeline)
    hosts = Hosts(timeline, ops)
    ranks = sorted({lane.rank for lane in timeline.lanes})
    return kernel_ratios(timeline, {r: rank_work(timeline, r, hosts, ops) for r in ranks})


def shaped(b: RankBuilder, rows: int) -> int:
    return b.op("aten::mm", inputs=(TensorSpec((rows, 64), (64, 1), "bfloat16"),))


def test_equal_kernels_on_a_slow_device() -> None:
    b = RankBuilder()
    op = shaped(b, 64)
    for rank, length in ((0, 40), (1, 40), (2, 60)):
        for i in range(3):
            b.work(100 * i, 100 * i + length, rank=rank, op=op)
    found = ratios(b)
    assert found[2].equal == pytest.approx(1.5)
    assert found[2].is_slower
    assert found[2].work == pytest.approx(1.5)
    assert not found[0].is_slower
    assert not found[0].is_more


def test_larger_shapes_are_more_work_not_a_slower_device() -> None:
    b = RankBuilder()
    small, large = shaped(b, 64), shaped(b, 256)
    for rank in range(3):
        b.work(0, 120 if rank == 2 else 40, rank=rank, op=large if rank == 2 else small)
    found = ratios(b)
    assert found[2].equal is None
    assert not found[2].is_slower
    assert found[2].is_more


def test_without_shapes_nothing_is_said_of_the_device() -> None:
    b = RankBuilder()
    for rank in range(3):
        b.work(0, 120 if rank == 2 else 40, rank=rank)
    assert ratios(b)[2].equal is None


def test_a_rank_without_kernels() -> None:
    b = RankBuilder()
    b.work(0, 10, kind="memcpy", rank=0)
    b.work(0, 10, kind="memcpy", rank=1)
    assert ratios(b) == {0: KernelRatio(None, None), 1: KernelRatio(None, None)}
