"""Collectives over symmetric memory: bytes, and where each is the fastest."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from gpuscope.cost.collective.symmetric import ONE_SHOT_SHARE, SHARE, symmetric_way
from gpuscope.cost.collective.ways import NCCL, all_reduce_s, group_of
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
    share = {"one_shot": ONE_SHOT_SHARE, "two_shot": SHARE}.get(kind, NCCL.nvls_share)
    assert way.moving_s == pytest.approx(times * 1e9 / (share * 450e9))


def test_one_shot_wins_small_and_loses_large() -> None:
    group = group_of(NODE, 8)
    small, large = 2**12, 2**24
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


@pytest.mark.parametrize(
    ("kind", "name"), [("one_shot", "one_shot_all_reduce"), ("two_shot", "two_shot_all_reduce_")]
)
def test_as_recorded_between_two_h200s(kind: str, name: str) -> None:
    """1 KiB to 16 MiB; a loop's period holds 2 us between kernels."""
    file = Path(__file__).resolve().parents[3] / "validation/recordings/h200/overlap-2.jsonl"
    errors = []
    for row in map(json.loads, file.read_text().splitlines()):
        if row["part"] == "symmetric" and row["operation"] == name:
            said_s = symmetric_way(kind, group_of(NODE, 2), row["bytes"], NCCL).time_s
            errors.append(abs(said_s / (median(row["loop_s"]) - 2e-6) - 1))
    assert len(errors) == 7
    assert median(errors) < 0.1
    assert max(errors) < 0.35
