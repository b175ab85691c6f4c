"""Collectives over symmetric memory: bytes, and where each is the fastest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.cost.collective_symmetric import SHARE, symmetric_way
from gpuscope.cost.collective_ways import NCCL, all_reduce_s, group_of
from gpuscope.cost.engine import cost_program
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import parse_target
from gpuscope.program.types import Op, ProcessGroup, Program, TensorSpec

NODE = parse_target("8xh200")


@pytest.mark.parametrize(
    ("kind", "times"), [("one_shot", 7), ("two_shot", 14 / 8), ("multimem", 9 / 8)]
)
def test_bytes_of_each(kind: str, times: float) -> None:
    way = symmetric_way(kind, group_of(NODE, 8), 1e9, NCCL)
    assert way.sent_bytes == pytest.approx(times * 1e9)
    share = NCCL.nvls_share if kind == "multimem" else SHARE
    assert way.moving_s == pytest.approx(times * 1e9 / (share * 450e9))


def test_one_shot_wins_small_and_loses_large() -> None:
    group = group_of(NODE, 8)
    small, large = 2**14, 2**24
    one, two = (
        [symmetric_way(k, group, s, NCCL).time_s for s in (small, large)]
        for k in ("one_shot", "two_shot")
    )
    assert one[0] < two[0] < all_reduce_s(group, small, replace(NCCL, nvls=False))
    assert one[1] > two[1]


def run(name: str, target: str, ranks: tuple[int, ...]) -> float:
    tensor = TensorSpec((2**19,), (1,), "bfloat16", "device", 0)
    op = Op(0, name, inputs=(tensor,), outputs=(tensor,), group=0)
    cluster = parse_target(target)
    program = Program("p", (op,), groups=(ProcessGroup("0", "tp", ranks),))
    return cost_program(program, cluster.device, cluster=cluster).ops[0].kernels[0].duration_s


def test_the_operators_are_known() -> None:
    ranks = tuple(range(8))
    times = [
        run(f"symm_mem::{n}", "8xh200", ranks)
        for n in ("one_shot_all_reduce", "two_shot_all_reduce_", "multimem_all_reduce_")
    ]
    assert times == sorted(times, reverse=True)  # 1 MiB


def test_over_a_fabric_there_is_no_such_memory() -> None:
    with pytest.raises(UnsupportedError, match="2 ranks"):
        run("symm_mem::one_shot_all_reduce", "2x8xh200", (0, 8))
