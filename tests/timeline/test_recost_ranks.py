"""A job on another machine: the same time as the whole simulation; memory and energy of all."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpuscope.cost.anew import costed_anew
from gpuscope.hardware import calibration_for, device
from gpuscope.program.types import Op, ProcessGroup, Program, Storage, TensorSpec
from gpuscope.program.world import RankPrograms
from gpuscope.timeline.contention import DeviceOverlap
from gpuscope.timeline.recost import recost
from gpuscope.timeline.recost_ranks import recost_ranks
from gpuscope.timeline.simulate_ranks import simulate_ranks

H200 = device("h200")
WORLD = ProcessGroup("0", "dp", (0, 1))


def spec(*shape: int, storage: int = -1) -> TensorSpec:
    stride = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return TensorSpec(shape, tuple(stride), "bfloat16", storage=storage)


def program(rank: int, rows: int, held_bytes: int = 1 << 20) -> Program:
    n = 4096
    product = Op(
        0, "aten::mm", inputs=(spec(rows, n), spec(n, n)), outputs=(spec(rows, n, storage=1),)
    )
    reduced = spec(n, n, storage=2)
    reduce = Op(1, "c10d::allreduce_", inputs=(reduced,), outputs=(reduced,), group=0)
    after = Op(2, "aten::add", inputs=(reduced, reduced), outputs=(reduced,), waits=(1,))
    storages = (Storage(1, held_bytes, "activation", -1, None),)
    return Program(
        "job", (product, reduce, after), storages, rank=rank, world_size=2, groups=(WORLD,)
    )


def job(first_rows: int = 4096, second_rows: int = 8192) -> RankPrograms:
    return RankPrograms((program(0, first_rows), program(1, second_rows, 1 << 30)), ((0,), (1,)))


def test_it_is_the_simulation():
    constants = calibration_for(H200)
    found = recost_ranks(job(), H200)
    made = [costed_anew(p, H200, constants).costed for p in job().programs]
    whole = simulate_ranks(made, job().members, overlap=DeviceOverlap.of(H200, constants))
    assert found.step_time_s == whole.step_time_s
    assert found.low_s is None


def test_equal_ranks_are_as_one_program():
    one = replace(job(), programs=(program(0, 4096),), members=((0, 1),))
    found = recost_ranks(one, H200, interval=True, memory=True)
    alone = recost(program(0, 4096), H200, interval=True, memory=True)
    assert found.step_time_s == alone.step_time_s
    assert found.low_s == pytest.approx(alone.low_s)
    assert found.high_s == pytest.approx(alone.high_s)
    assert found.ranks[0].peak_memory_bytes == alone.peak_memory_bytes
    assert found.energy_j == pytest.approx(2 * (alone.energy_j or 0))


def test_the_slower_rank_sets_the_pace_and_the_fuller_one_is_named():
    found = recost_ranks(job(), H200, interval=True, memory=True)
    assert found.step_time_s > recost_ranks(job(second_rows=4096), H200).step_time_s
    assert found.low_s is not None
    assert found.high_s is not None
    assert found.low_s < found.step_time_s < found.high_s
    assert found.fullest is not None
    assert found.fullest.rank == 1
    assert recost_ranks(job(), H200).fullest is None
