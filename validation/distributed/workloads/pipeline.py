"""Pipelines with `torch.distributed.pipelining`: one stage a rank, or two."""

from __future__ import annotations

import torch
from setup import init, tokens
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from transformer import Decoder, loss_of

LAYERS, DIM, VOCAB, SEQ = 16, 2048, 32000, 1024


def _stage(index: int, stages: int, rank_device: torch.device) -> PipelineStage:
    part = Decoder(
        LAYERS // stages, DIM, 16, 8, 8192, VOCAB, first=index == 0, last=index == stages - 1
    )
    return PipelineStage(part.cuda().bfloat16(), index, stages, rank_device)


def _run(schedule, stages: list[PipelineStage], rank: int, world: int, batch: int):
    parameters = [p for stage in stages for p in stage.submod.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    ids = tokens(batch, SEQ, VOCAB)

    def step():
        optimizer.zero_grad(set_to_none=True)
        if rank == 0:
            schedule.step(ids)
        elif rank == world - 1:
            schedule.step(target=ids, losses=[])
        else:
            schedule.step()
        optimizer.step()

    return step


def _device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


def gpipe():
    """All forwards, then all backwards: 8 microbatches of 2 sequences."""
    rank, world = init()
    stage = _stage(rank, world, _device())
    return _run(ScheduleGPipe(stage, 8, loss_fn=loss_of), [stage], rank, world, 16)


def one_forward_one_backward():
    """1F1B: 8 microbatches of 2 sequences."""
    rank, world = init()
    stage = _stage(rank, world, _device())
    return _run(Schedule1F1B(stage, 8, loss_fn=loss_of), [stage], rank, world, 16)


def interleaved():
    """Two stages a rank, interleaved 1F1B."""
    rank, world = init()
    stages = [_stage(rank + world * i, 2 * world, _device()) for i in range(2)]
    schedule = ScheduleInterleaved1F1B(stages, 8, loss_fn=loss_of)
    return _run(schedule, stages, rank, world, 16)
