"""A program or a job becomes a run."""

from __future__ import annotations

import pytest

import gpuscope as gs
from gpuscope.errors import InvalidValueError


def _plain():  # type: ignore[no-untyped-def]
    import torch

    model = torch.nn.Linear(1024, 1024).cuda()
    x = torch.randn(64, 1024, device="cuda")
    return lambda: model(x).sum().backward()


def _reducing():  # type: ignore[no-untyped-def]
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    x = torch.randn(64, 1024, 1024, device="cuda")

    def step() -> None:
        dist.all_reduce(x)
        x.mul_(0.5)

    return step


def _stages():  # type: ignore[no-untyped-def]
    """Rank 0 computes and sends, the others receive from their neighbour and send on."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.randn(4096, 4096, device="cuda")
    more = torch.randn(64 * 2**20 if rank else 16, device="cuda")

    def step() -> None:
        if rank:
            dist.recv(x, rank - 1)
        x @ x
        more.mul_(2.0)
        if rank + 1 < size:
            dist.send(x, rank + 1)

    return step


def test_a_program_without_communication_runs_as_copies() -> None:
    run = gs.predict(_plain, on="8xh200")
    assert run.world_size == 1
    assert any("its own copy" in said for said in run.assumptions)
    assert run.step_time_s == gs.predict(_plain, on="h200").step_time_s


def test_equal_ranks_are_one_and_wait_for_each_other() -> None:
    run = gs.predict(_reducing, on="8xh200")
    assert run.world_size == 8
    assert run.ranks == (0,)
    (rank,) = run.rank_results
    assert rank.members == tuple(range(8))
    assert rank.exposed_communication_s == pytest.approx(run.analysis.time[0].communication_s)
    assert run.step_time_s > rank.device_busy_s
    assert run.step_time_interval_s[0] < run.step_time_s < run.step_time_interval_s[1]
    alone = gs.predict(_reducing, on="h200")
    assert alone.step_time_s < run.step_time_s


def test_ranks_that_differ_are_simulated_together() -> None:
    run = gs.predict(_stages, on="4xh200")
    assert run.ranks == (0, 1, 2, 3)
    assert run.peak_memory_bytes == max(r.peak_memory_bytes for r in run.rank_results)
    assert run.rank_results[0].peak_memory_bytes < run.rank_results[1].peak_memory_bytes
    assert {lane.rank for lane in run.timeline.lanes} == {0, 1, 2, 3}


def test_many_targets_take_one_capture_of_each_size() -> None:
    runs = gs.predict_many(_reducing, ["h200", "2xh200", "2xh100", "16xh200"])
    assert [run.world_size for run in runs] == [1, 2, 2, 16]
    assert runs[3].step_time_s > runs[1].step_time_s


def test_a_capture_of_another_size_is_refused() -> None:
    from gpuscope.program.world import World

    program = gs.capture(_reducing, world=World(4, 0))
    with pytest.raises(InvalidValueError, match="4 ranks"):
        gs.predict(program, on="8xh200")
    assert gs.predict(program, on="4xh200").world_size == 4
